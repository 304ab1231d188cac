//! One module for each command. The entry of each is `run(args, ui)`, which gives the exit code.

pub(crate) mod bench;
pub(crate) mod campaign;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod decide;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod explain;
pub(crate) mod generate;
pub(crate) mod init;
pub(crate) mod man;
pub(crate) mod matching;
pub(crate) mod mix;
pub(crate) mod plan_run;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod scenario;
pub(crate) mod search;
pub(crate) mod series;
pub(crate) mod version;
pub(crate) mod watch;
