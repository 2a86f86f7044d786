"""The families: each file is presets and wiring of the parts in `regard.layers`, nothing else."""
