"""Programs on devices: at once by `simulate`, or step by step by a `Simulation`."""

from kpusim.run.view import Mode
from kpusim.simulation.options import SimulationOptions
from kpusim.simulation.running import simulate
from kpusim.simulation.simulation import Simulation

__all__ = ["Mode", "Simulation", "SimulationOptions", "simulate"]
