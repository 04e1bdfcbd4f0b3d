import "reflect-metadata/lite";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { toPem } from "../../src/pki/encoding/pem.ts";
import { nativeCalls } from "./native-calls.ts";
import { cpuOfAll, type MissingPeer, type Peer } from "./peer.ts";
import { freePort, type Stage } from "./stage.ts";

const name = "istiod";

/** Of the compressed program; one with another digest never runs. */
const sha256 = "3e730a9eed5517e2609aca576254777ea961d1a0077a1ed5d7fc6fa2b1340dc9";
const version = "2026-08-22 (istio/istio 86c9f01f)";

/** RAMPART_SOFTWARE names the folder of prebuilt programs, as for the interop suites. */
const { RAMPART_SOFTWARE = join(import.meta.dirname, "../../../shared/bin") } = process.env;

/** Unpacks istiod, or says why not. */
export function findIstiod({ folder }: Stage): string | MissingPeer {
  const file = join(RAMPART_SOFTWARE, "istiod.xz");
  if (!existsSync(file)) return { name, why: "istiod.xz is not in RAMPART_SOFTWARE" };
  const compressed = readFileSync(file);
  if (createHash("sha256").update(compressed).digest("hex") !== sha256) {
    return { name, why: "istiod.xz has another digest than the one that was measured" };
  }
  const program = join(folder, "istiod");
  const options = { input: compressed, maxBuffer: 2 ** 30 };
  writeFileSync(program, execFileSync("xz", ["-dc"], options), { mode: 0o755 });
  return program;
}

const algorithms = {
  "EC-P256": { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  "RSA-2048": {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
  },
} as const;

/** istiod with a plugged-in root, and the same rule for tokens as Rampart's table of the issuer. */
export async function startIstiod(
  program: string,
  { cluster, keysUrl, workload, folder }: Stage,
  rootKey: Peer["rootKey"],
): Promise<Peer> {
  const place = join(folder, `istiod-${rootKey}`);
  await mkdir(join(place, "config"), { recursive: true });
  await writeRoot(join(place, "authority"), rootKey);
  const port = await freePort();
  const [http, https, monitoring] = [await freePort(), await freePort(), await freePort()];
  const meshFile = join(place, "mesh.yaml");
  await writeFile(meshFile, JSON.stringify({ trustDomain: "cluster.local" }));
  const values = [
    ...["discovery", "--registries=", `--configDir=${join(place, "config")}`],
    ...[`--meshConfig=${meshFile}`, `--secureGRPCAddr=127.0.0.1:${port}`, "--grpcAddr="],
    ...[`--httpAddr=127.0.0.1:${http}`, `--httpsAddr=127.0.0.1:${https}`],
    ...[`--monitoringAddr=127.0.0.1:${monitoring}`, "--ctrlz_port=0", "--log_target=stderr"],
  ];
  const rule = { issuer: cluster.issuer, jwksUri: keysUrl, audiences: ["istio-ca"] };
  const child = spawn(program, values, {
    cwd: place,
    env: {
      ...process.env,
      ROOT_CA_DIR: join(place, "authority"),
      JWT_RULE: JSON.stringify(rule),
    },
    stdio: "ignore",
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const pid = child.pid ?? 0;
  const { load, close } = await nativeCalls(port, workload);
  return {
    name,
    version,
    api: "native gRPC over TLS",
    rootKey,
    less: "no audit line for a certificate, no lint",
    load,
    cpu: () => cpuOfAll(pid),
    end: async () => {
      close();
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function writeRoot(folder: string, rootKey: Peer["rootKey"]): Promise<void> {
  const algorithm = algorithms[rootKey];
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const root = await X509CertificateGenerator.createSelfSigned({
    name: "O=Istio",
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + 86_400_000),
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const pem = `${root.toString("pem")}\n`;
  await mkdir(folder);
  await Promise.all([
    ...["ca-cert.pem", "root-cert.pem", "cert-chain.pem"].map((file) =>
      writeFile(join(folder, file), pem),
    ),
    writeFile(join(folder, "ca-key.pem"), toPem("PRIVATE KEY", pkcs8), { mode: 0o600 }),
  ]);
}
