"""Write notices about incidents, queue them, and deliver them over channels."""
