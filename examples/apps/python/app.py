"""Runs a model on NumPy arrays of several shapes, and shows what an error looks like."""
import numpy as np
from mlp_model import Model

model = Model()
print(model.inputs, model.sizes)
for batch in (1, 3):
    (y,) = model(np.full((batch, 4), 0.5, np.float32))
    print(list(y.shape), *(f"{value:.6f}" for value in y.reshape(-1)))
try:
    model(np.zeros((2, 5), np.float32))
except ValueError as e:
    print(e)
