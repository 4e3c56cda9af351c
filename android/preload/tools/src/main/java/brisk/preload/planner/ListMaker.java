// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

import brisk.preload.planner.ClassInfo.MethodInfo;
import brisk.preload.planner.ClassInfo.Use;

/**
 * Derives a class list from jars if the platform's own is not available: what every application needs, breadth first from an
 * application's basic classes, over supertypes and all classes that their code uses.
 */
public final class ListMaker {
    /** An application's basic classes; the same in every release. */
    private static final List<String> SEEDS = List.of(
            "android/app/ActivityThread", "android/app/Activity", "android/app/Application", "android/app/Service",
            "android/app/AlertDialog", "android/app/Fragment", "android/content/BroadcastReceiver",
            "android/content/ContentProvider", "android/content/Intent", "android/content/res/Resources",
            "android/database/sqlite/SQLiteDatabase", "android/graphics/Bitmap", "android/graphics/Canvas",
            "android/graphics/drawable/StateListDrawable", "android/media/MediaPlayer", "android/net/ConnectivityManager",
            "android/os/AsyncTask", "android/os/Handler", "android/os/Parcel", "android/preference/PreferenceActivity",
            "android/telephony/TelephonyManager", "android/text/SpannableStringBuilder", "android/text/format/DateUtils",
            "android/util/LruCache", "android/view/ViewRootImpl", "android/view/animation/AnimationUtils",
            "android/view/inputmethod/InputMethodManager", "android/webkit/WebView", "android/widget/ListView",
            "android/widget/TextView", "org/apache/http/impl/client/DefaultHttpClient", "org/json/JSONObject");

    private ListMaker() {}

    /**
     * The names, with dots and in alphabetical order, of at most {@code count} classes; {@code excluded} is true for internal
     * names that must not be listed.
     */
    public static List<String> derive(List<Path> jars, int count, Predicate<String> excluded) throws IOException {
        try (Program program = Program.open(jars)) {
            Set<String> seen = new LinkedHashSet<>();
            Deque<String> ways = new ArrayDeque<>(SEEDS);
            while (!ways.isEmpty() && seen.size() < count) {
                String name = ways.poll();
                ClassInfo info = program.find(name);
                if (info != null && !excluded.test(name) && seen.add(name)) {
                    ways.addAll(neighbours(program, info));
                }
            }
            return seen.stream().map(name -> name.replace('/', '.')).sorted().toList();
        }
    }

    private static List<String> neighbours(Program program, ClassInfo info) {
        List<String> neighbours = new ArrayList<>(program.supertypes(info));
        List<MethodInfo> methods = new ArrayList<>(info.methods.values());
        methods.sort((left, right) -> left.signature.compareTo(right.signature));
        for (MethodInfo method : methods) {
            program.uses(method).stream().map(Use::owner).forEach(neighbours::add);
        }
        return neighbours;
    }
}
