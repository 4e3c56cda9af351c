//! The daemon: sensors -> events -> policies -> actions, in one loop.
