//! NVML, spoken to a stub of the library.

use touchstone_telemetry::gpu::{GpuSample, Gpus};

#[test]
fn a_stub_of_the_library_is_read_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let library = touchstone_testkit::nvml::stub_library(folder.path()).unwrap();
    let gpus = Gpus::open_at(library.as_os_str()).unwrap();
    let (first, second) = (gpus.read(), gpus.read());
    let [busy, silent] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((busy.index, busy.name.as_deref(), busy.utilisation), (0, Some("Stub GPU"), Some(0.75)));
    assert_eq!((busy.memory_total, busy.sm_mhz, busy.watts), (Some(80 << 30), Some(1410), Some(250.0)));
    assert_eq!(busy.throttled, ["power_cap"]);
    assert_eq!(second[0].memory_used.unwrap() - busy.memory_used.unwrap(), 1 << 20);
    assert_eq!(second[0].joules.unwrap() - busy.joules.unwrap(), 50.0);
    let nothing = GpuSample { index: 1, name: Some("Silent GPU".to_owned()), ..GpuSample::default() };
    assert_eq!(*silent, nothing, "what is not reported is none");
}

#[test]
fn no_library_is_no_fault() {
    let why = Gpus::open_at("/nowhere/libnvidia-ml.so.1".as_ref()).unwrap_err();
    assert!(why.contains("no NVML"), "{why}");
}
