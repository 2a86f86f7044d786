"""What a run can be for, one file a task: its rows, its batches, its objective, its scores."""
