//! The contract of the I/O foundation, checked over loopback. Times are only ever checked to be "not earlier than":
//! how late things come is measured elsewhere. (The modules are marked as tests for the lints' sake.)

#[cfg(test)]
mod loopback;
#[cfg(test)]
mod poller;
#[cfg(target_os = "linux")]
#[cfg(test)]
mod stamps;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
