import { generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { looksWell, type Scene } from "./page-scenes.ts";

const issuer = "https://a.test";

/** Plays `rampart acceptance` against a served CA, which must be found good. @returns The signed report. */
async function play(): Promise<string> {
  const folder = await lastingFolder();
  const file = (name: string): string => join(folder, name);
  const tokens = await createTokenKey("ES256", "k1");
  const ca = await serveCa({
    SERVING_NAMES: ["localhost"],
    CRL: "on",
    ISSUERS: [{ issuer, jwks: jwksOf(tokens) }],
  });
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  try {
    await writeFile(file("roots.pem"), await ca.bundle());
    await writeFile(file("token"), await mintAccountToken(tokens, issuer, "foo:bar", new Date()));
    await writeFile(file("key.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
    await writeFile(file("key.pub"), publicKey.export({ type: "spki", format: "pem" }));
    const where = ["--url", `https://localhost:${ca.port}`, "--ca", file("roots.pem")];
    const how = ["--token-file", file("token"), "--wait", "5s", "--calls", "200", "--yes"];
    const report = ["--html", file("report.html"), "--sign", file("key.pem")];
    await runRampart(["acceptance", ...where, ...how, ...report], { timeoutSeconds: 300 });
  } finally {
    await ca.end();
  }
  const verify = ["pkeyutl", "-verify", "-pubin", "-inkey", file("key.pub"), "-rawin"];
  const signed = ["-in", file("report.html"), "-sigfile", file("report.html.sig")];
  await runWell("openssl", [...verify, ...signed]);
  return pathToFileURL(file("report.html")).href;
}

let played: Promise<string> | undefined;

/** The report of `rampart acceptance`, which a person opens as a file. */
export const reportScenes: Readonly<Record<string, Scene>> = looksWell(async () => {
  played ??= play();
  return { url: await played, [Symbol.dispose]: () => {} };
});
