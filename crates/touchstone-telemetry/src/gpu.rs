//! NVIDIA devices through NVML, which is loaded when it is there and missed by nobody when it is not.
//!
//! Tested against a stub of the library; it was not run on a real GPU.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::Clock;

/// Devices that are read at most.
const MAX_DEVICES: u32 = 64;

/// The devices of this machine.
#[derive(Debug)]
pub struct Gpus {
    nvml: Nvml,
    count: u32,
}

/// A device at one moment; what it does not report is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuSample {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: Option<String>,
    /// Share of the last moments in which it computed, 0 to 1.
    pub utilisation: Option<f64>,
    /// Memory in use by anybody, bytes.
    pub memory_used: Option<u64>,
    /// All of its memory, bytes.
    pub memory_total: Option<u64>,
    /// Clock of its multiprocessors, MHz.
    pub sm_mhz: Option<u32>,
    /// Power, W.
    pub watts: Option<f64>,
    /// Energy since its driver was loaded, J.
    pub joules: Option<f64>,
    /// Why its clocks are below what was asked for.
    pub throttled: Vec<&'static str>,
}

/// What counts as throttling: not idleness, and not clocks that somebody set.
const REASONS: [(ThrottleReasons, &str); 5] = [
    (ThrottleReasons::SW_POWER_CAP, "power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware_slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "thermal"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware_thermal"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power_brake"),
];

impl Gpus {
    /// Loads the system's library.
    ///
    /// # Errors
    /// Words for why there are no devices: no library, no driver, no device.
    pub fn open() -> Result<Self, String> {
        Self::found(Nvml::init())
    }

    /// Loads the library at a path.
    ///
    /// # Errors
    /// As [`Gpus::open`].
    pub fn open_at(library: &OsStr) -> Result<Self, String> {
        Self::found(Nvml::builder().lib_path(library).init())
    }

    fn found(nvml: Result<Nvml, nvml_wrapper::error::NvmlError>) -> Result<Self, String> {
        let nvml = nvml.map_err(|error| format!("no NVML on this machine: {error}"))?;
        let count = nvml.device_count().map_err(|error| format!("NVML names no devices: {error}"))?;
        if count == 0 {
            return Err("NVML knows no device".to_owned());
        }
        Ok(Self { nvml, count: count.min(MAX_DEVICES) })
    }

    /// Reads every device; one that cannot be read at all is left out.
    #[must_use]
    pub fn read(&self) -> Vec<GpuSample> {
        let one = |index: u32| {
            let device = self.nvml.device_by_index(index).ok()?;
            let memory = device.memory_info().ok();
            let throttle = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
            Some(GpuSample {
                index,
                name: device.name().ok(),
                utilisation: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
                memory_used: memory.as_ref().map(|memory| memory.used),
                memory_total: memory.as_ref().map(|memory| memory.total),
                sm_mhz: device.clock_info(Clock::SM).ok(),
                watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
                joules: device.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3),
                throttled: REASONS
                    .iter()
                    .filter(|(reason, _)| throttle.contains(*reason))
                    .map(|(_, name)| *name)
                    .collect(),
            })
        };
        (0..self.count).filter_map(one).collect()
    }
}
