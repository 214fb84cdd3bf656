"""What a point came to: from what its programs left to one result, with the gates that it must hold."""
