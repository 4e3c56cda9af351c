// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;

import brisk.preload.planner.ListMaker;

/** The classes of a real Android release, as Robolectric publishes them, and files that the laboratory derives. */
public enum Framework {
    /** Android 4.1.2, the release of the paper. */
    JELLY_BEAN("4.1.2_r1-robolectric-0", "0bb6f0994420d6db5c6e28a0ef659b7549e06b1928d98d47eb72dab24565955b"),
    /** Android 14. */
    UPSIDE_DOWN_CAKE("14-robolectric-10818077", "6be2218c6a53fe3c57bc22ebdc723edcb7270a8a6f187545708aa5c0ed813977");

    /** The number of classes that the paper's zygote preloads. */
    public static final int LIST_LENGTH = 2300;

    private final String mVersion;
    private final String mSha256;

    Framework(String version, String sha256) {
        mVersion = version;
        mSha256 = sha256;
    }

    public String version() {
        return mVersion;
    }

    /**
     * The jar in {@code folder}, where Maven has stored it.
     *
     * @throws IOException if it does not exist, or is another one
     */
    public Path jar(Path folder) throws IOException {
        Path jar = folder.resolve("android-all-" + mVersion + ".jar");
        if (!Files.isRegularFile(jar)) {
            throw new IOException(jar + " is missing: mvn -Pdeep generate-test-resources fetches it");
        }
        String found = sha256(jar);
        if (!found.equals(mSha256)) {
            throw new IOException(jar + " is not the one that was published: its SHA-256 is " + found);
        }
        return jar;
    }

    /** The jar with native methods that do nothing, written into {@code scratch}; {@code hooked} as in {@link Rewriter}. */
    public Path stubbed(Path folder, Path scratch, boolean hooked) throws IOException {
        Path copy = scratch.resolve(mVersion + (hooked ? "-hooked.jar" : "-stubbed.jar"));
        Rewriter.rewrite(jar(folder), copy, hooked);
        return copy;
    }

    /** A class list of the paper's length, derived from the jar and written into {@code scratch}. */
    public Path list(Path folder, Path scratch) throws IOException {
        return list(folder, scratch, LIST_LENGTH, Set.of());
    }

    /** The same with another length, without some classes. */
    public Path list(Path folder, Path scratch, int length, Set<String> without) throws IOException {
        Path list = scratch.resolve(mVersion + "-classes");
        Files.createDirectories(scratch);
        List<String> names = ListMaker.derive(List.of(jar(folder)), length + without.size(), hosts());
        Files.write(list, names.stream().filter(name -> !without.contains(name)).limit(length).toList());
        return list;
    }

    /** True for classes that this Java machine has itself, whatever a jar on the boot class path contains. */
    public static Predicate<String> hosts() {
        Set<String> packages = new TreeSet<>();
        ModuleLayer.boot().modules().forEach(module -> packages.addAll(module.getPackages()));
        return name -> {
            int slash = name.lastIndexOf('/');
            String inPackage = slash < 0 ? "" : name.substring(0, slash).replace('/', '.');
            return name.startsWith("java/") || packages.contains(inPackage);
        };
    }

    private static String sha256(Path path) throws IOException {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            try (InputStream in = new DigestInputStream(Files.newInputStream(path), digest)) {
                in.transferTo(OutputStream.nullOutputStream());
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
