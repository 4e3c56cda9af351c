// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

import android.os.Process;
import android.os.SystemProperties;
import android.system.ErrnoException;
import android.system.Os;
import android.util.Log;
import brisk.preload.BootReport;
import brisk.preload.ClassList;
import brisk.preload.ParallelPreloader;
import brisk.preload.PreloadMode;
import brisk.preload.PreloadReport;
import dalvik.system.ZygoteHooks;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * {@link ZygoteInit} calls this instead of its own loop over the class list. {@code persist.brisk.preload} names the mode
 * ({@code off}, {@code ahead}, {@code plan}) or, if that is empty, {@code ro.zygote.preload}; anything else is {@code off}. The
 * mode that ran, and its duration, are in {@code brisk.preloaded.64} or {@code .32} until the device's next boot.
 */
final class ZygotePreload {
    private static final String TAG = "ZygotePreload";
    private static final File LIST = new File("/system/etc/preloaded-classes");
    private static final File PLAN = new File("/system/etc/preload.plan");
    /** On a partition that is mounted before the zygote starts and persists across boots. */
    private static final String MARKER = "/metadata/brisk/preload";
    private static final long STALL_LIMIT_MS = 30000;
    private static final int UNPRIVILEGED_ID = 9999;

    private static long sBeganNanos;
    private static PreloadMode sMode = PreloadMode.OFF;
    private static String sReason;
    private static boolean sResourcesDone;

    private ZygotePreload() {}

    /**
     * Preloads the classes, and the resources where the plan has a task for them; false when the zygote must preload in its own
     * way. The calling thread has dropped root if {@code dropsRoot}; each worker then does so itself, since in Android's C
     * library these calls affect one thread.
     */
    static boolean classes(final boolean dropsRoot, final Runnable resources) {
        sBeganNanos = System.nanoTime();
        PreloadMode mode = PreloadMode.asked(SystemProperties.get("persist.brisk.preload"),
                SystemProperties.get("ro.zygote.preload"));
        if (mode == PreloadMode.OFF || mode == PreloadMode.FORK) {
            sReason = mode == PreloadMode.OFF ? null : "there is nothing to fork with";
            return false;
        }
        ClassList list;
        try {
            list = ClassList.read(LIST);
        } catch (IOException e) {
            Log.e(TAG, "cannot read " + LIST, e);
            sReason = "cannot read " + LIST;
            return false;
        }
        ParallelPreloader preloader = new ParallelPreloader(mode).setMarker(new File(MARKER + bits())).setResources(new Runnable() {
            @Override
            public void run() {
                resources.run();
                sResourcesDone = true;
            }
        });
        preloader.setStallListener(STALL_LIMIT_MS, new ParallelPreloader.StallListener() {
            @Override
            public void stalled(String description) {
                Log.wtf(TAG, description);
                // init restarts the zygote, and the marker makes that start sequential.
                Runtime.getRuntime().halt(1);
            }
        });
        if (dropsRoot) {
            preloader.setWorkerSetup(new Runnable() {
                @Override
                public void run() {
                    dropRoot();
                }
            });
        }
        // Until the first fork no threads may run except the preloader's, which have exited when it returns.
        ZygoteHooks.stopZygoteNoThreadCreation();
        try {
            PreloadReport report = preloader.preload(list, PLAN, bootClassPath());
            sMode = report.mode();
            sReason = report.reason();
            Log.i(TAG, report.toString());
        } finally {
            ZygoteHooks.startZygoteNoThreadCreation();
        }
        return true;
    }

    /** Whether {@link #classes} has preloaded the resources. */
    static boolean resourcesDone() {
        return sResourcesDone;
    }

    /** Publishes what ran, after classes and resources: a comparison of boots trusts only the zygote. */
    static void report() {
        String name = "brisk.preloaded." + bits();
        try {
            SystemProperties.set(name, BootReport.value(sMode, System.nanoTime() - sBeganNanos, sReason));
        } catch (RuntimeException e) {
            Log.e(TAG, "cannot set " + name, e);
        }
    }

    /** A device may have two zygotes, which preload at the same time. */
    private static String bits() {
        return Process.is64Bit() ? "64" : "32";
    }

    private static void dropRoot() {
        try {
            Os.setregid(0, UNPRIVILEGED_ID);
            Os.setreuid(0, UNPRIVILEGED_ID);
        } catch (ErrnoException e) {
            throw new SecurityException("cannot drop root", e);
        }
    }

    private static List<File> bootClassPath() {
        List<File> jars = new ArrayList<File>();
        for (String path : System.getenv("BOOTCLASSPATH").split(":")) {
            jars.add(new File(path));
        }
        return jars;
    }
}
