"""Calibration alarms that stay valid however often one looks."""

from swapcal.monitor.alarm import Alarm
from swapcal.monitor.lifetime import Lifetime
from swapcal.monitor.monitor import Monitor

__all__ = ["Alarm", "Lifetime", "Monitor"]
