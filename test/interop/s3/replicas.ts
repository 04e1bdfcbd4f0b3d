import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../agent/processes/child-process.ts";
import { until } from "../agent/until.ts";
import { freePorts } from "../free-ports.ts";
import { runWell } from "../programs.ts";
import { bucket, credential } from "./gateway.ts";
import type { Scene } from "./scenes.ts";

const main = join(import.meta.dirname, "../../../src/cli/main.ts");

interface Replica {
  readonly child: Child;
  /** The answer of its monitoring port; empty while it has none. */
  readonly answer: (path: string) => Promise<string>;
}

/** Processes of the program itself share a bucket, through the loss of the service and of one of them. */
export async function playReplicas({ gateway, folder }: Scene): Promise<string> {
  const env = {
    KEK: `k1:${randomBytes(32).toString("base64")}`,
    AWS_ACCESS_KEY_ID: credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
  };
  const configured = async (name: string, monitoring: string): Promise<string> => {
    const path = join(folder, `${name}.toml`);
    const text = `STORE = "s3"
STORE_BUCKET = "${bucket}"
STORE_PREFIX = "replicas/"
S3_ENDPOINT = "${gateway.origin}"
S3_CA_FILE = "${gateway.rootsFile}"
PROPAGATION_INTERVAL = "10s"
LISTEN = "127.0.0.1:0"
MONITORING_LISTEN = "${monitoring}"
[[ISSUERS]]
issuer = "https://a.test"
`;
    await writeFile(path, text);
    return path;
  };
  const verb = async (...words: readonly string[]): Promise<string> => {
    const options = { environment: env, timeoutSeconds: 300 };
    const config = await configured("verb", "127.0.0.1:0");
    return runWell(process.execPath, [main, ...words, "--config", config], options);
  };
  const start = async (name: string, port: number | undefined): Promise<Replica> => {
    const config = await configured(name, `127.0.0.1:${port}`);
    const logFile = join(folder, `${name}.log`);
    const child = startChild(process.execPath, [main, "serve", "--config", config], {
      ...{ logFile, env },
    });
    const answer = (path: string): Promise<string> =>
      fetch(`http://127.0.0.1:${port}${path}`).then(
        (response) => response.text(),
        () => "",
      );
    return { child, answer };
  };

  await verb("authority", "init");
  const ports = await freePorts(2);
  const [a, b] = [await start("a", ports[0]), await start("b", ports[1])];
  const publish = (count: number, ...replicas: readonly Replica[]) =>
    until(`${replicas.length} replicas publish ${count} roots`, 120, async () => {
      const bundles = await Promise.all(replicas.map(({ answer }) => answer("/bundle.pem")));
      const roots = bundles.map((bundle) => bundle.split("BEGIN CERTIFICATE").length - 1);
      return roots.every((each) => each === count) && new Set(bundles).size === 1;
    });
  const isReady = async ({ answer }: Replica): Promise<boolean> =>
    (await answer("/readyz")).includes('"ready":true');
  try {
    await publish(1, a, b);
    await until("both replicas are ready", 120, async () => (await isReady(a)) && isReady(b));
    await verb("authority", "rotate", "--yes");
    await publish(2, a, b);
    gateway.pause();
    assert.ok((await isReady(a)) && (await isReady(b)), "not ready at the beginning of an outage");
    gateway.resume();
    await a.child.end("SIGKILL");
    const ids = JSON.parse(await verb("authority", "list", "--json")) as { readonly id: string }[];
    assert.equal(ids.length, 2);
    await verb("root", "add", await otherRoot(folder));
    await publish(3, b);
    return "two processes through a rotation, an outage of the service, and the loss of one of them";
  } finally {
    await Promise.all([a.child.end("SIGKILL"), b.child.end("SIGKILL")]);
  }
}

/** The root of another CA. @returns Its file. */
async function otherRoot(folder: string): Promise<string> {
  const [key, file] = [join(folder, "other.key"), join(folder, "other.pem")];
  const kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30".split(" ");
  const name = ["-subj", "/CN=other", "-addext", "keyUsage=critical,keyCertSign"];
  await runWell("openssl", ["req", ...kind, ...name, "-keyout", key, "-out", file]);
  return file;
}
