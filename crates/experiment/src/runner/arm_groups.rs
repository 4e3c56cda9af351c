//! The control groups of an arm: by hand, of Android, and for the priority of packets.

use anyhow::Context;

use super::groups_by_hand::ControlGroups;
use super::network::NetworkPriority;
use super::process_groups::{Place, ProcessGroups};
use crate::spec::{Arm, BackgroundProgram, Combinations, DEFAULT_SHARES, GroupsByHand};
use brisk_sys::Root;

/// The groups of an arm, made before its programs start: the programs must have ended before they are removed.
pub(super) struct ArmGroups<'a> {
    by_hand: Option<ControlGroups>,
    priority: Option<NetworkPriority>,
    of_android: Option<ProcessGroups<'a>>,
}

impl<'a> ArmGroups<'a> {
    /// Makes what `arm` sets, or what every arm of `combinations` has.
    pub(super) fn make(root: &'a Root, combinations: &Combinations, arm: &Arm) -> anyhow::Result<Self> {
        let of_every_arm = || combinations.grouped.then(GroupsByHand::unlimited);
        let by_hand = arm.by_hand.clone().or_else(of_every_arm);
        let find = || ProcessGroups::find(root).context("this device has no groups of Android: /dev/cpuset/top-app");
        let of_android = arm.android_groups.then(find).transpose()?;
        if let Some((groups, shares)) = of_android.zip(arm.android_foreground_shares) {
            groups.weigh(shares)?;
        }
        Ok(Self {
            by_hand: by_hand.map(|groups| ControlGroups::make(root, &groups)).transpose()?,
            priority: arm.background_network_priority.map(|wanted| NetworkPriority::set(root, wanted)).transpose()?,
            of_android,
        })
    }

    /// Moves the background process `pid`, which runs `what`.
    pub(super) fn enter_background(&self, pid: u32, what: BackgroundProgram) -> anyhow::Result<()> {
        self.by_hand.as_ref().map_or(Ok(()), |groups| groups.enter_background(pid))?;
        if !what.is_music() {
            self.priority.as_ref().map_or(Ok(()), |priority| priority.give_to(pid))?;
        }
        let place = if what.is_music() { Place::Perceptible } else { Place::Background };
        self.of_android.map_or(Ok(()), |groups| groups.place(pid, place))
    }

    /// Moves the foreground process `pid`.
    pub(super) fn enter_foreground(&self, pid: u32) -> anyhow::Result<()> {
        self.by_hand.as_ref().map_or(Ok(()), |groups| groups.enter_foreground(pid))?;
        self.of_android.map_or(Ok(()), |groups| groups.place(pid, Place::TopApp))
    }

    /// True where a daemon sees the foreground by the groups, and is not told.
    pub(super) fn show_foreground(&self) -> bool {
        self.of_android.is_some()
    }

    /// Removes what was made, and resets what was set.
    ///
    /// # Errors
    /// When a group remains.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        self.of_android.map_or(Ok(()), |groups| groups.weigh(DEFAULT_SHARES))?;
        self.by_hand.map_or(Ok(()), ControlGroups::remove)?;
        self.priority.map_or(Ok(()), NetworkPriority::end)
    }
}
