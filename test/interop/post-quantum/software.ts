import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import { builtOnce, orMissing, required, type Software } from "../software.ts";

const here = import.meta.dirname;
const timeoutSeconds = 900;

/** The crate that has wolfSSL 5.9.4 in it, and the digest of its archive. */
const crate = "wolfssl-sys-5.3.0";
const crateSha256 = "e04fb531435ec8ba1852ee9df66ab351cdb1e3aec1da4013787ae93efa3adac6";

/** A judge that calls wolfSSL, built with ML-DSA, which its own default leaves out. */
export const wolfSslJudge: Promise<Software> = builtOnce("wolfssl-judge", crate, async (folder) => {
  // `cargo info` is the verb that downloads one crate without its dependencies.
  await runWell("cargo", ["info", "--quiet", crate.replace(/-(?=\d)/, "@")], { timeoutSeconds });
  const home = process.env["CARGO_HOME"] ?? join(process.env["HOME"] ?? "", ".cargo");
  const find = [join(home, "registry/cache"), "-name", `${crate}.crate`];
  const [archive = ""] = (await runWell("find", find)).trim().split("\n");
  const digest = createHash("sha256")
    .update(await readFile(archive))
    .digest("hex");
  if (digest !== crateSha256) throw new Error(`${crate}.crate has the digest ${digest}`);
  await runWell("tar", ["-xzf", archive, "-C", folder]);
  const [source, build] = [join(folder, crate, "wolfssl-src"), join(folder, "build")];
  const settings = ["MLDSA=yes", "CRL=yes", "EXAMPLES=no", "CRYPT_TESTS=no"];
  const words = ["-S", source, "-B", build, "-DBUILD_SHARED_LIBS=OFF"];
  await runWell("cmake", [...words, ...settings.map((each) => `-DWOLFSSL_${each}`)]);
  await runWell("cmake", ["--build", build, "--parallel", "2"], { timeoutSeconds });
  await runWell("cc", [
    ...["-o", join(folder, "wolfssl-judge"), join(here, "wolfssl/judge.c")],
    ...["-I", build, "-I", source, join(build, "libwolfssl.a"), "-lm", "-lpthread"],
  ]);
});

/** The classes of a judge that calls BouncyCastle's provider, with the archive that they need. */
export const bouncyCastleJudge: Promise<Software> = orMissing(async () => {
  const [name, version] = ["bcprov-jdk18on", "1.84"];
  const copied = builtOnce(`${name}.jar`, version, async (folder) => {
    const artifact = `-Dartifact=org.bouncycastle:${name}:${version}`;
    const copy = ["dependency:copy", artifact, `-DoutputDirectory=${folder}`];
    const words = ["-q", "-B", ...copy, "-Dmdep.stripVersion=true"];
    await runWell("mvn", words, { folder, timeoutSeconds });
  });
  const archive = await required(copied);
  const compiled = builtOnce("Judge.class", version, (folder) =>
    runWell("javac", [
      ...["-cp", archive, "-d", folder],
      join(here, "bouncy-castle/Judge.java"),
    ]).then(() => {}),
  );
  return `${archive}:${join(await required(compiled), "..")}`;
});
