// SPDX-License-Identifier: Apache-2.0
package com.android.internal.os;

import android.os.SystemProperties;
import android.system.ErrnoException;
import android.system.Os;
import android.util.Log;
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
 * What {@link ZygoteInit} calls in place of its own loop over the class list. {@code ro.zygote.preload} names the mode
 * ({@code off}, {@code ahead}, {@code plan}); anything else is {@code off}.
 */
final class ZygotePreload {
    private static final String TAG = "ZygotePreload";
    private static final File LIST = new File("/system/etc/preloaded-classes");
    private static final File PLAN = new File("/system/etc/preload.plan");
    /** On a partition that is mounted before the zygote starts and outlives a boot. */
    private static final File MARKER = new File("/metadata/brisk/preload");
    private static final long STALL_LIMIT_MS = 30000;
    private static final int UNPRIVILEGED_ID = 9999;

    private static boolean sResourcesDone;

    private ZygotePreload() {}

    /**
     * Preloads the classes, and the resources where the plan says from when on; false when the zygote shall do it in its own
     * way. The calling thread has dropped root if {@code dropsRoot}; each worker then does so, since in Android's C library
     * these calls are for one thread.
     */
    static boolean classes(final boolean dropsRoot, final Runnable resources) {
        PreloadMode mode = PreloadMode.called(SystemProperties.get("ro.zygote.preload", "off"));
        if (mode == null || mode == PreloadMode.OFF || mode == PreloadMode.FORK) {
            return false;
        }
        ClassList list;
        try {
            list = ClassList.read(LIST);
        } catch (IOException e) {
            Log.e(TAG, "cannot read " + LIST, e);
            return false;
        }
        ParallelPreloader preloader = new ParallelPreloader(mode).setMarker(MARKER).setResources(new Runnable() {
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
                // init starts the zygote again, and the marker makes that start sequential.
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
        // Threads are forbidden from here to the first fork but for those of the preloader, which are gone when it returns.
        ZygoteHooks.stopZygoteNoThreadCreation();
        try {
            PreloadReport report = preloader.preload(list, PLAN, bootClassPath());
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
