"""Calibration alarms that stay valid however often you look."""

from swapcal.monitor.alarms import Alarm, Lifetime
from swapcal.monitor.monitor import ClassMonitors, Monitor, e_bh

__all__ = ["Alarm", "ClassMonitors", "Lifetime", "Monitor", "e_bh"]
