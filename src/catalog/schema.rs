//! Tables and migrations.
