"""Engines that sample from the policy, behind one interface."""
