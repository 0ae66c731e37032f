"""Compiles models with rlxc: one action a model. Bazel's own cache keeps the results."""

def _rlxc_package(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add_all(["compile", ctx.file.model, "--target", ctx.attr.target, "-q", "-o", out.path])
    arguments.add_all(ctx.attr.flags)
    ctx.actions.run(
        executable = ctx.executable.rlxc,
        arguments = [arguments],
        inputs = [ctx.file.model] + ctx.files.data,
        outputs = [out],
        mnemonic = "Rlxc",
        progress_message = "Compiling %{input}",
    )
    return [DefaultInfo(files = depset([out]))]

rlxc_package = rule(
    implementation = _rlxc_package,
    attrs = {
        "model": attr.label(allow_single_file = [".onnx", ".json"], mandatory = True),
        "data": attr.label_list(allow_files = True, doc = "weights files, and files that flags name"),
        "target": attr.string(default = "cpu"),
        "flags": attr.string_list(),
        "rlxc": attr.label(executable = True, cfg = "exec", mandatory = True),
    },
)
