//! `touchstone demo`: the whole method on the embedded engines, and on Redis and NATS where they are on the machine.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use touchstone_flow::scenario::ScenarioFile;
use touchstone_model::Target;
use touchstone_report::terminal::match_table;

use super::run::Flow;
use super::watch::control_by_ctrl_c;
use super::{matching, scenario};
use crate::args::DemoArgs;
use crate::exit::ExitCode;
use crate::ui::Ui;

/// The scenario that is decided on embedded engines.
const CHAT: &str = include_str!("../../../../scenarios/chat-demo.yaml");
/// The scenario that is run where nats-server is on the machine.
const PUBSUB: &str = include_str!("../../../../scenarios/pubsub-local.yaml");
/// The scenario that is run where redis-server is on the machine.
const CACHE: &str = include_str!("../../../../scenarios/cache-local.yaml");

/// Runs the three families.
pub(crate) fn run(args: &DemoArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let catalog = scenario::catalog(&args.out)?;
    let control = control_by_ctrl_c()?;
    ui.note("1 of 3: inference, on embedded engines. SIMULATED: it shows the method, it measures no product. About two minutes.");
    let chat = ScenarioFile::read("scenarios/chat-demo.yaml", CHAT.as_bytes().to_vec())?;
    let matched = scenario::matched(&chat, &catalog, "scenarios/chat-demo.yaml".as_ref())?;
    let flow = Flow { file: &chat, catalog: &catalog, matched: &matched, out: &args.out, repeats: None };
    let mut code = flow.run(None, ui, &control)?;
    let families = [
        ("2 of 3: queue", "pubsub-local.yaml", PUBSUB, Local::Nats),
        ("3 of 3: cache", "cache-local.yaml", CACHE, Local::Redis),
    ];
    for (title, name, text, local) in families {
        if code == ExitCode::Interrupted {
            break;
        }
        let name = format!("scenarios/{name}");
        match local.start() {
            Some(server) => {
                ui.note(&format!("{title}, on the real {} of this machine", local.program()));
                let file = at_address(&name, text, &server)?;
                let matched = scenario::matched(&file, &catalog, name.as_ref())?;
                let flow = Flow {
                    file: &file,
                    catalog: &catalog,
                    matched: &matched,
                    out: &args.out,
                    repeats: Some(1),
                };
                code = code.combine(flow.run(None, ui, &control)?);
            }
            None => {
                ui.note(&format!(
                    "{title}: {} is not on this machine, so only the match is shown",
                    local.program()
                ));
                let file = ScenarioFile::read(&name, text.as_bytes().to_vec())?;
                let matched = scenario::matched(&file, &catalog, name.as_ref())?;
                ui.summary(false, |style| match_table(&matching::rows(&matched, ui.lang()), style))?;
            }
        }
    }
    Ok(code)
}

/// A server that the demo starts for itself.
#[derive(Debug, Clone, Copy)]
enum Local {
    Nats,
    Redis,
}

/// A running server of the demo's own; ended when dropped.
struct Server {
    child: Child,
    folder: PathBuf,
    from: &'static str,
    to: String,
}

impl Local {
    fn program(self) -> &'static str {
        match self {
            Local::Nats => "nats-server",
            Local::Redis => "redis-server",
        }
    }

    /// Starts it on a free loopback port with a folder of its own; none when it is not on the machine.
    fn start(self) -> Option<Server> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let folder = std::env::temp_dir().join(format!("touchstone-demo-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let port_text = port.to_string();
        let mut command = Command::new(self.program());
        let (from, to) = match self {
            Local::Nats => {
                command.args(["-a", "127.0.0.1", "-p", &port_text]);
                ("nats=127.0.0.1:4222", format!("nats=127.0.0.1:{port}"))
            }
            Local::Redis => {
                command.args([
                    "--port",
                    &port_text,
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                ]);
                command.arg(&folder);
                ("resp=127.0.0.1:6379", format!("resp=127.0.0.1:{port}"))
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C at the terminal is for the load: the server has to answer until drain is over.
        let child = command.process_group(0).spawn().ok();
        let Some(child) = child else {
            std::fs::remove_dir_all(&folder).ok();
            return None;
        };
        let mut server = Server { child, folder, from, to };
        server.is_ready(port).then_some(server)
    }
}

impl Server {
    /// Waits until the port answers, at most five seconds.
    fn is_ready(&mut self, port: u16) -> bool {
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; its folder may be gone.
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// The scenario with the server's address in place of the usual one.
fn at_address(name: &str, text: &str, server: &Server) -> anyhow::Result<ScenarioFile> {
    // The address is a valid target: it is made from a port number.
    let target: Target = server.to.parse()?;
    Ok(ScenarioFile::read(name, text.replace(server.from, &target.to_string()).into_bytes())?)
}
