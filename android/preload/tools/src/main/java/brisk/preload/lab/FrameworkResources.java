// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Preloads the resources of a framework's jar, as far as a zygote does before its first application: reads the compiled table's
 * strings, inflates drawables, walks compiled XML. Replaces Android's native code for the same work; it uses no class of the
 * framework.
 */
public final class FrameworkResources {
    private static final int CHUNK_STRING_POOL = 0x0001;
    private static final int CHUNK_XML = 0x0003;
    private static final int FLAG_UTF8 = 1 << 8;
    private static final long PNG_SIGNATURE = 0x89504e470d0a1a0aL;
    private static final int PNG_DATA = 0x49444154;
    private static final String TABLE = "resources.arsc";
    /** A zygote preloads a few hundred drawables of one density, not all. */
    private static final String DRAWABLES = "res/drawable-mdpi";

    private static Path sJar;
    private static Preloaded sPreloaded;

    /** What was preloaded; the numbers prove it. */
    public record Preloaded(int strings, int drawables, long pixelBytes, int documents, int chunks) {}

    private FrameworkResources() {}

    /** True for a jar's entry that {@link #preload} reads. */
    static boolean uses(String entry) {
        return entry.equals(TABLE) || isDrawable(entry) || isDocument(entry);
    }

    private static boolean isDrawable(String entry) {
        return entry.startsWith(DRAWABLES) && entry.endsWith(".png");
    }

    private static boolean isDocument(String entry) {
        return entry.startsWith("res/drawable") && entry.endsWith(".xml");
    }

    /** Sets the jar. */
    public static void use(Path jar) {
        sJar = jar;
    }

    /** The result of the last {@link #preload}; null without one. */
    public static Preloaded preloaded() {
        return sPreloaded;
    }

    /** Preloads. */
    public static void preload() {
        try (ZipFile jar = new ZipFile(sJar.toFile())) {
            sPreloaded = preload(jar);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Preloaded preload(ZipFile jar) throws IOException {
        int strings = 0;
        int drawables = 0;
        int documents = 0;
        int chunks = 0;
        long pixelBytes = 0;
        // No streams: the cost of a lambda at first use would be counted as resources. No calls of interfaces that the
        // framework implements either, because the planner would assume that classes of it are needed.
        ArrayList<? extends ZipEntry> entries = Collections.list(jar.entries());
        for (int index = 0; index < entries.size(); index++) {
            ZipEntry entry = entries.get(index);
            String name = entry.getName();
            if (name.equals(TABLE)) {
                strings += strings(read(jar, entry)).size();
            } else if (isDrawable(name)) {
                drawables++;
                pixelBytes += pixels(read(jar, entry));
            } else if (isDocument(name)) {
                documents++;
                chunks += chunks(read(jar, entry));
            }
        }
        return new Preloaded(strings, drawables, pixelBytes, documents, chunks);
    }

    private static ByteBuffer read(ZipFile jar, ZipEntry entry) throws IOException {
        // The stream is closed with the jar.
        return ByteBuffer.wrap(jar.getInputStream(entry).readAllBytes()).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The strings of the table's own pool, which every other part refers to. */
    static List<String> strings(ByteBuffer table) throws IOException {
        int at = table.getShort(2) & 0xffff;
        if (at + 28 > table.limit() || table.getShort(at) != CHUNK_STRING_POOL) {
            throw new IOException("resources.arsc does not begin with its strings");
        }
        int count = table.getInt(at + 8);
        boolean utf8 = (table.getInt(at + 16) & FLAG_UTF8) != 0;
        int start = at + table.getInt(at + 20);
        int header = table.getShort(at + 2) & 0xffff;
        List<String> strings = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            strings.add(string(table, start + table.getInt(at + header + 4 * index), utf8));
        }
        return strings;
    }

    private static String string(ByteBuffer table, int offset, boolean utf8) {
        int at = offset;
        if (!utf8) {
            int units = table.getShort(at) & 0xffff;
            at += 2;
            if (units >= 0x8000) {
                units = (units & 0x7fff) << 16 | table.getShort(at) & 0xffff;
                at += 2;
            }
            return new String(table.array(), at, 2 * units, StandardCharsets.UTF_16LE);
        }
        at += (table.get(at) & 0x80) != 0 ? 2 : 1; // the length in characters
        int bytes = table.get(at++) & 0xff;
        if (bytes >= 0x80) {
            bytes = (bytes & 0x7f) << 8 | table.get(at++) & 0xff;
        }
        return new String(table.array(), at, bytes, StandardCharsets.UTF_8);
    }

    /** Inflates the picture's rows; returns their bytes. */
    static long pixels(ByteBuffer png) throws IOException {
        png.order(ByteOrder.BIG_ENDIAN);
        if (png.limit() < 8 || png.getLong(0) != PNG_SIGNATURE) {
            throw new IOException("a drawable is no PNG");
        }
        Inflater inflater = new Inflater();
        byte[] lines = new byte[1 << 14];
        long bytes = 0;
        try {
            for (int at = 8; at + 12 <= png.limit(); at += 12 + png.getInt(at)) {
                if (png.getInt(at + 4) != PNG_DATA) {
                    continue;
                }
                inflater.setInput(png.array(), at + 8, png.getInt(at));
                for (int count = inflater.inflate(lines); count > 0; count = inflater.inflate(lines)) {
                    bytes += count;
                }
            }
        } catch (DataFormatException e) {
            throw new IOException("a drawable cannot be inflated", e);
        } finally {
            inflater.end();
        }
        return bytes;
    }

    /** Walks compiled XML and returns its chunks; for source XML, as in old releases, its tags. */
    static int chunks(ByteBuffer xml) throws IOException {
        int chunks = 0;
        if (xml.limit() < 8 || xml.getShort(0) != CHUNK_XML) {
            for (byte letter : xml.array()) {
                chunks += letter == '<' ? 1 : 0;
            }
            return chunks;
        }
        for (int at = xml.getShort(2) & 0xffff; at + 8 <= xml.limit(); at += xml.getInt(at + 4)) {
            if (xml.getInt(at + 4) < 8) {
                throw new IOException("compiled XML has a chunk without a length");
            }
            chunks++;
        }
        return chunks;
    }
}
