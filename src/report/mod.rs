//! What people and programs read: HTML, SVG, tables, JSON, OpenMetrics.
