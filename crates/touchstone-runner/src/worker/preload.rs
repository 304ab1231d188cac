//! Work before the load: a driver's preload on a connection of its own.

use touchstone_load::{Driver, Failure, Op, OpToken, Session, SessionEvent};
use touchstone_model::Phase;
use touchstone_net::{ConnState, mono_ns};

use super::{HOUSEKEEPING_NS, Worker};
use crate::failure;
use crate::link::LinkState;

impl Worker {
    /// Runs the operations of a driver's preload to their end, on one connection after another where the peer closes them.
    /// Gives the number that did not end well.
    pub(crate) fn preload(&mut self, driver: &dyn Driver, operations: u64) -> u64 {
        let (mut ended, mut missing) = (0, 0);
        while ended < operations {
            let Some(session) = driver.preload() else { break };
            let (done, failed) = self.preload_on_one(session, ended, operations);
            if done + failed == 0 {
                // When it fails, the operations of the run fail for the same reason and tell it.
                break;
            }
            ended += done + failed;
            missing += failed;
        }
        missing + operations.saturating_sub(ended)
    }

    /// Runs the operations from `first` on, on a connection of its own. Gives how many ended well and how many failed.
    fn preload_on_one(&mut self, session: Box<dyn Session>, first: u64, operations: u64) -> (u64, u64) {
        let (mut done, mut failed) = (0, 0);
        // Why a connection was lost is told by the operations of the run.
        drop(self.preload_until_lost(session, first, operations - first, (&mut done, &mut failed)));
        (done, failed)
    }

    fn preload_until_lost(
        &mut self,
        session: Box<dyn Session>,
        first: u64,
        operations: u64,
        (done, failed): (&mut u64, &mut u64),
    ) -> Result<(), Failure> {
        let index = self.open(session, mono_ns())?;
        let mut started = 0;
        let mut ready = Vec::new();
        let mut heard_ns = mono_ns();
        while *done + *failed < operations {
            let now = mono_ns();
            if now.saturating_sub(heard_ns) > self.setup.connect_timeout_ns || self.control.stopped() {
                break;
            }
            let Some(link) = self.links[index].as_mut() else { break };
            if link.state == LinkState::Open {
                while started < operations && link.session.capacity() > 0 && link.conn.out().len() < 1 << 20 {
                    let op = Op { token: OpToken(0), index: first + started, intended_ns: now };
                    link.append(|session, out| session.start(op, out));
                    started += 1;
                }
            }
            // The greeting too: it does nothing while the transport is connecting.
            if link.conn.write_pending().is_err() {
                break;
            }
            self.poller
                .wait(&mut ready, Some(now + HOUSEKEEPING_NS))
                .map_err(|error| failure::broken(&error, Phase::Stream))?;
            for event in std::mem::take(&mut ready) {
                if event.token.0 & 0xffff_ffff != index || self.links[index].is_none() {
                    continue;
                }
                let Some(link) = self.links[index].as_mut() else { break };
                if let Err(error) = link.conn.drive_connect(mono_ns(), &mut self.recv) {
                    self.close(index);
                    return Err(failure::connect_failure(&error));
                }
                if link.state == LinkState::Connecting && link.conn.state() == ConnState::Open {
                    link.state = LinkState::Greeting;
                    let events = &mut self.events;
                    link.append(|session, out| session.open(out, events));
                }
                let session = &mut link.session;
                let (events, reply) = (&mut self.events, &mut self.reply);
                // An event comes once: what it announced is read to its end.
                let gone = loop {
                    let mut sink = |bytes: &[u8], _, _| session.receive(bytes, reply, events);
                    match link.conn.read(&mut self.recv, &mut sink) {
                        Ok(outcome) if outcome.more && !outcome.eof => {}
                        outcome => break outcome.map_or(true, |outcome| outcome.eof),
                    }
                };
                let reply = std::mem::take(&mut self.reply);
                link.append(|_, out| out.extend_from_slice(&reply));
                let mut broken = None;
                for event in self.events.drain(..) {
                    heard_ns = mono_ns();
                    match event {
                        SessionEvent::Ready => {
                            link.state = LinkState::Open;
                            self.connecting = self.connecting.saturating_sub(1);
                            self.open_links += 1;
                        }
                        SessionEvent::Done { .. } => *done += 1,
                        SessionEvent::Failed { .. } => *failed += 1,
                        SessionEvent::Broken { failure } => broken = Some(failure),
                        _ => {}
                    }
                }
                if let Some(failure) = broken {
                    self.close(index);
                    return Err(failure);
                }
                if gone {
                    self.close(index);
                    return Err(failure::closed(Phase::Stream));
                }
            }
        }
        self.close(index);
        Ok(())
    }
}
