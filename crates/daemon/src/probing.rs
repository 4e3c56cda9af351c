//! Probes the device again when it or the configuration has changed.

use sd_notify::NotifyState;

use super::mechanisms::Decided;
use super::{Engine, PROBE_DELAY, PROBE_PAUSE, note_other_probes};
use brisk_config::Layers;
use brisk_mechanism::{Event, ProbeContext, ThreadSampling};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::error::sentence;
use brisk_sys::system::grant;

impl Engine {
    pub(super) fn probe_soon(&mut self, now: BootTime) {
        self.probe_due.get_or_insert(now + PROBE_DELAY);
    }

    /// Probes the device again.
    pub(super) fn probe(&mut self, now: BootTime) {
        self.last_probe = now;
        self.dispatch(now, &Event::DeviceChanged);
        let before = self.mechanisms.describe();
        self.reprobe(now, false);
        let described = self.mechanisms.describe();
        if described != before {
            tracing::info!("the device changed; {described}");
        }
    }

    /// Lets the mechanisms go on under the present configuration and device.
    pub(super) fn reprobe(&mut self, now: BootTime, is_new_configuration: bool) {
        // Leases hide the device's own values, so they are released before the probe.
        let (root, settings) = (&self.options.root, &self.layers.config);
        self.mechanisms.note_configuration(settings);
        let decided = self.mechanisms.prepare_reconfigure(now, ProbeContext { root, settings, is_new_configuration });
        self.update_children(now);
        self.execute_all(now, decided);
        let ended = self.executor.retry(now);
        self.deliver_ended(now, ended);
        let is_readable = self.executor.await_limits();
        if !is_readable && !self.has_probed_early {
            self.probe_due.get_or_insert(now + PROBE_PAUSE);
        }
        self.has_probed_early = !is_readable;
        let (root, settings) = (&self.options.root, &self.layers.config);
        note_other_probes(&mut self.mechanisms, self.options.mechanisms, root);
        let decided = self.mechanisms.reconfigure(now, ProbeContext { root, settings, is_new_configuration });
        if self.executor.prepare(&self.mechanisms.tunables()) {
            self.ask_for_grant();
        }
        self.execute_all(now, decided);
        self.update_device_watches();
        self.serve_mechanisms(now);
        self.update_subscriptions(now);
    }

    /// Tunables have appeared since `brisk grant` ran: asks the service manager, if it has `brisk-grant.path`, to run it again.
    pub(super) fn ask_for_grant(&self) {
        match grant::ask(&self.options.root) {
            Ok(()) => tracing::info!("new tunables are not granted yet: asked brisk-grant.path"),
            Err(error) => tracing::debug!("cannot ask for tunables to be granted: {error}"),
        }
    }

    pub(super) fn update_device_watches(&mut self) {
        let root = &self.options.root;
        self.subscriptions.watch_device(root, &self.poller);
        if let Some(ThreadSampling { sensing, groups }) = self.mechanisms.thread_sampling() {
            self.subscriptions.threads.groups = Groups::of(root, groups);
            self.subscriptions.threads.set_sensing(sensing);
        }
    }

    pub(super) fn execute_all(&mut self, now: BootTime, decided: Decided) {
        for (index, decisions) in decided.into_iter().enumerate() {
            self.execute_decisions(now, index, decisions);
        }
    }

    /// Reloads the configuration; an invalid one changes nothing.
    pub(super) fn reload(&mut self, now: BootTime) {
        let reloading = NotifyState::monotonic_usec_now().map(|usec| vec![NotifyState::Reloading, usec]);
        self.notify(&reloading.unwrap_or_else(|_| vec![NotifyState::Reloading]));
        match self.try_reload() {
            Ok(layers) => {
                self.layers = layers;
                self.config_error = None;
                self.reprobe(now, true);
                self.restart_previews(now);
                self.configure_telemetry(now);
                tracing::info!("configuration reloaded; {}", self.mechanisms.describe());
            }
            Err(error) => {
                let reason = sentence(error.as_ref());
                tracing::error!("the configuration stays as it was: {reason}");
                self.config_error = Some(reason);
            }
        }
        self.save();
        self.notify(&[NotifyState::Ready]);
    }

    pub(super) fn try_reload(&mut self) -> anyhow::Result<Layers> {
        let layers = self.options.read_config()?;
        if let Some(control) = &mut self.control
            && layers.config.control != self.layers.config.control
        {
            control.reconfigure(&self.options.root, &layers.config.control)?;
        }
        Ok(layers)
    }
}
