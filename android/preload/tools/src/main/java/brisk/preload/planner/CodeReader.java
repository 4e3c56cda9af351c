// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

import brisk.preload.planner.ClassInfo.Kind;
import brisk.preload.planner.ClassInfo.MethodInfo;
import brisk.preload.planner.ClassInfo.Use;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ConstantDynamic;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Reads everything in a method's code that may initialise a class or call a method. */
final class CodeReader extends MethodVisitor {
    private final MethodInfo mMethod;
    private final Set<Use> mUses = new LinkedHashSet<>();
    private final List<Use> mStrings = new ArrayList<>();
    private boolean mInitializesByName;

    private CodeReader(MethodInfo method) {
        super(Opcodes.ASM9);
        mMethod = method;
    }

    /** Fills in the uses of every method of {@code info}. */
    static void read(ClassReader reader, ClassInfo info) {
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                return new CodeReader(info.methods.get(name + type));
            }
        }, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
        if (opcode == Opcodes.NEW) {
            mUses.add(new Use(Kind.INSTANCE, type, ""));
        }
    }

    @Override
    public void visitFieldInsn(int opcode, String owner, String name, String type) {
        if (opcode == Opcodes.GETSTATIC || opcode == Opcodes.PUTSTATIC) {
            mUses.add(new Use(Kind.FIELD, owner, name));
        }
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String name, String type, boolean isInterface) {
        if (owner.startsWith("[")) {
            return;
        }
        Kind kind = switch (opcode) {
            case Opcodes.INVOKESTATIC -> Kind.STATIC;
            case Opcodes.INVOKESPECIAL -> Kind.SPECIAL;
            default -> Kind.VIRTUAL;
        };
        mUses.add(new Use(kind, owner, name + type));
        mInitializesByName |= owner.equals("java/lang/Class") && name.equals("forName");
    }

    @Override
    public void visitInvokeDynamicInsn(String name, String type, Handle bootstrap, Object... arguments) {
        for (Object argument : arguments) {
            constant(argument);
        }
    }

    @Override
    public void visitLdcInsn(Object value) {
        if (value instanceof String text) {
            mStrings.add(new Use(Kind.NAMED, text.replace('.', '/'), ""));
        } else {
            constant(value);
        }
    }

    /** A method handle is treated as a call: the code that makes it may call it before its own initialiser has ended. */
    private void constant(Object value) {
        if (value instanceof Handle handle) {
            boolean isField = handle.getTag() <= Opcodes.H_PUTSTATIC;
            Kind kind = switch (handle.getTag()) {
                case Opcodes.H_GETSTATIC, Opcodes.H_PUTSTATIC -> Kind.FIELD;
                case Opcodes.H_INVOKESTATIC -> Kind.STATIC;
                case Opcodes.H_INVOKESPECIAL -> Kind.SPECIAL;
                case Opcodes.H_NEWINVOKESPECIAL -> Kind.INSTANCE;
                default -> Kind.VIRTUAL;
            };
            boolean instanceField = handle.getTag() == Opcodes.H_GETFIELD || handle.getTag() == Opcodes.H_PUTFIELD;
            if (!instanceField) {
                mUses.add(new Use(kind, handle.getOwner(), isField ? handle.getName() : handle.getName() + handle.getDesc()));
            }
            if (kind == Kind.INSTANCE) {
                mUses.add(new Use(Kind.SPECIAL, handle.getOwner(), handle.getName() + handle.getDesc()));
            }
        } else if (value instanceof ConstantDynamic dynamic) {
            for (int i = 0; i < dynamic.getBootstrapMethodArgumentCount(); i++) {
                constant(dynamic.getBootstrapMethodArgument(i));
            }
        }
    }

    @Override
    public void visitEnd() {
        if (mInitializesByName) {
            mUses.addAll(mStrings);
        }
        mMethod.uses = List.copyOf(mUses);
    }
}
