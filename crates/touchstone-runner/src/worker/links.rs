//! The life of connections: opened before the load or when an operation finds none, ready, lost, and opened again.

use touchstone_load::{Connections, Failure, Session, SessionEvent, Shard};
use touchstone_model::Phase;
use touchstone_net::{Conn, ConnectProgress, Interest, Token, mono_ns};

use super::{HOUSEKEEPING_NS, MAX_BACKLOG, OPEN_AT_ONCE, RECONNECT_NS, Worker};
use crate::failure;
use crate::link::{Link, LinkState};

impl Worker {
    pub(super) fn new_session(&mut self, consumer: bool) -> Option<Box<dyn Session>> {
        let number = self.serial * self.setup.shards + self.setup.shard;
        self.serial += 1;
        if consumer {
            self.setup.driver.consumer(self.setup.shard, number)
        } else {
            Some(self.setup.driver.session(self.setup.shard, number))
        }
    }

    /// Starts to open a connection. Returns the failure when it fails at once.
    pub(super) fn open(&mut self, session: Box<dyn Session>, now_ns: u64) -> Result<usize, Failure> {
        if let Some(failure) = &self.setup.unresolved {
            return Err(failure.clone());
        }
        let address = &self.setup.addresses[self.address % self.setup.addresses.len().max(1)];
        let conn =
            Conn::connect(address, &self.setup.endpoint).map_err(|error| failure::connect_failure(&error))?;
        let index = self.free_links.pop().unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        self.generation = self.generation.wrapping_add(1) & 0xff_ffff;
        let token = Token(index | (self.generation as usize) << 32);
        if let Err(error) = self.poller.register(&conn, token, Interest::READABLE | Interest::WRITABLE) {
            self.free_links.push(index);
            return Err(failure::broken(&error, Phase::Connect));
        }
        self.links[index] = Some(Link::new(conn, session, self.generation, now_ns));
        self.connecting += 1;
        self.counters.connections += 1;
        Ok(index)
    }

    /// Opens the fixed connections and the consumer, and waits until they are ready or their time is over.
    pub(crate) fn prepare(&mut self, shard: &mut Shard) {
        let began = mono_ns();
        let has_consumer = match self.new_session(true) {
            Some(session) => {
                self.open_or_note(session, true, began);
                true
            }
            None => false,
        };
        let fixed = match self.wanted {
            Connections::Fixed(all) => all,
            Connections::OnDemand { .. } => 0,
        };
        for number in 0..fixed {
            if number % OPEN_AT_ONCE == 0 && self.control.stopped() {
                return;
            }
            if let Some(session) = self.new_session(false) {
                self.open_or_note(session, false, began);
            }
        }
        let wanted = fixed + u32::from(has_consumer);
        let deadline = began + self.setup.connect_timeout_ns;
        let mut ready = Vec::new();
        while self.connecting > 0
            && self.open_links < wanted
            && mono_ns() < deadline
            && !self.control.stopped()
        {
            let wake = (mono_ns() + HOUSEKEEPING_NS).min(deadline);
            if self.poller.wait(&mut ready, Some(wake)).is_err() {
                break;
            }
            self.handle(&ready, shard);
            self.flush(shard);
        }
    }

    pub(super) fn open_or_note(&mut self, session: Box<dyn Session>, consumer: bool, now_ns: u64) {
        if let Err(failure) = self.open(session, now_ns) {
            self.last_connect_failure = Some(failure);
            self.reconnect_at.push_back((now_ns + RECONNECT_NS, consumer));
        }
    }

    /// Removes a link without looking at its operations.
    pub(super) fn close(&mut self, index: usize) {
        if let Some(link) = self.links[index].take() {
            self.finishing.forget(link.finishing);
            match link.state {
                LinkState::Open => self.open_links = self.open_links.saturating_sub(1),
                LinkState::Connecting | LinkState::Greeting => {
                    self.connecting = self.connecting.saturating_sub(1)
                }
            }
            if self.poller.deregister(&link.conn).is_err() {
                // The descriptor is closed with the connection, which removes it from the poller as well.
            }
            self.free_links.push(index);
        }
    }

    pub(super) fn open_for_waiting(&mut self, shard: &mut Shard, now_ns: u64) {
        let Connections::OnDemand { at_most } = self.wanted else { return };
        let soon_free = self.soon_free(now_ns);
        while self.connecting as usize + soon_free < shard.waiting() {
            if self.open_links + self.connecting >= at_most && !self.close_one_that_lingers() {
                return;
            }
            let Some(session) = self.new_session(false) else { return };
            if let Err(failure) = self.open(session, now_ns) {
                shard.fail_next_waiting(failure, now_ns);
            }
        }
    }

    /// A connection on which no operation has ended yet; none when there is none.
    pub(super) fn take_fresh(&mut self) -> Option<usize> {
        let is_fresh =
            |index: &usize| self.links[*index].as_ref().is_some_and(|link| !link.reused && link.listed);
        let at = self.available.iter().position(is_fresh)?;
        self.available.remove(at)
    }

    /// Opens a connection for an operation that must have a fresh one, in the place of an idle one at the bound.
    pub(super) fn open_fresh(&mut self, shard: &mut Shard, now_ns: u64) {
        let Connections::OnDemand { at_most } = self.wanted else { return };
        if self.connecting > 0 {
            return;
        }
        if self.open_links + self.connecting >= at_most {
            let Some(idle) = self.available.pop_back() else { return };
            self.counters.reconnects += 1;
            self.close(idle);
        }
        let Some(session) = self.new_session(false) else { return };
        if let Err(failure) = self.open(session, now_ns) {
            shard.fail_next_waiting(failure, now_ns);
        }
    }

    pub(super) fn connect(&mut self, index: usize, shard: &mut Shard) {
        let Some(link) = self.links[index].as_mut() else { return };
        let now = mono_ns();
        match link.conn.drive_connect(now, &mut self.recv) {
            Ok(ConnectProgress::Pending) => {}
            Ok(ConnectProgress::Ready) => {
                link.state = LinkState::Greeting;
                shard.connected(now.saturating_sub(link.opened_ns));
                let events = &mut self.events;
                link.append(|session, out| session.open(out, events));
                if !self.take_state_events(index) {
                    self.flush_link(index, shard);
                    self.read(index, None, shard);
                }
            }
            Err(error) => {
                let failure = failure::connect_failure(&error);
                self.connect_failed(index, failure, shard);
            }
        }
    }

    /// Looks for `Ready` among the events of opening; returns whether the link became open.
    pub(super) fn take_state_events(&mut self, index: usize) -> bool {
        let ready = self.events.iter().any(|event| matches!(event, SessionEvent::Ready));
        self.events.clear();
        if ready {
            self.became_open(index);
        }
        ready
    }

    pub(super) fn became_open(&mut self, index: usize) {
        let Some(link) = self.links[index].as_mut() else { return };
        if link.state != LinkState::Open {
            link.state = LinkState::Open;
            self.connecting = self.connecting.saturating_sub(1);
            self.open_links += 1;
            if !link.dirty {
                link.dirty = true;
                self.dirty.push(index);
            }
        }
        self.list(index);
    }

    pub(super) fn list(&mut self, index: usize) {
        let futile = self.reuse.is_futile() && matches!(self.wanted, Connections::OnDemand { .. });
        let Some(link) = self.links[index].as_mut() else { return };
        if futile && link.reused && link.active == 0 && link.session.capacity() > 0 {
            self.counters.reconnects += 1;
            self.close(index);
            return;
        }
        if !link.listed
            && link.backlog() <= MAX_BACKLOG
            && !link.session.receive_only()
            && link.state == LinkState::Open
            && link.session.capacity() > 0
        {
            link.listed = true;
            self.finishing.forget(std::mem::take(&mut link.finishing));
            match self.wanted {
                Connections::Fixed(_) => self.available.push_back(index),
                Connections::OnDemand { .. } => self.available.push_front(index),
            }
        }
    }

    /// A connection could not be opened.
    pub(super) fn connect_failed(&mut self, index: usize, failure: Failure, shard: &mut Shard) {
        let consumer = self.links[index].as_ref().is_some_and(|link| link.session.receive_only());
        self.close(index);
        self.address += 1;
        let now = mono_ns();
        match self.wanted {
            Connections::OnDemand { .. } => shard.fail_next_waiting(failure, now),
            Connections::Fixed(_) => {
                if self.open_links == 0 {
                    shard.fail_all_waiting(&failure, now);
                }
                self.last_connect_failure = Some(failure);
                self.reconnect_at.push_back((now + RECONNECT_NS, consumer));
            }
        }
    }

    /// Closes an idle link on which its session will start nothing any more.
    pub(super) fn close_if_spent(&mut self, index: usize) {
        let Some(link) = self.links[index].as_ref() else { return };
        let spent = link.state == LinkState::Open
            && link.active == 0
            && link.session.capacity() == 0
            && !link.session.receive_only();
        if spent && link.session.finishing() {
            self.note_finishing(index);
        } else if spent {
            self.counters.reconnects += 1;
            self.close(index);
            self.replace(false);
        }
    }

    /// Opens a fixed connection again, soon.
    pub(super) fn replace(&mut self, consumer: bool) {
        self.replace_after(consumer, 0);
    }

    pub(super) fn replace_after(&mut self, consumer: bool, pause_ns: u64) {
        if consumer || matches!(self.wanted, Connections::Fixed(_)) {
            self.reconnect_at.push_back((mono_ns() + pause_ns, consumer));
        }
    }
}
