import "reflect-metadata/lite";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { join, resolve } from "node:path";
import { PemConverter, X509CertificateGenerator } from "@peculiar/x509";
import { stringify } from "smol-toml";
import { RecordName } from "../../../src/custody/authority-store.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import type { Finding } from "../../../src/status/finding.ts";
import { scheduleAfter, sealNewAuthority } from "../../testkit/ca/sealed-authorities.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { createTlsIdentity, type TlsIdentity } from "../../testkit/network/tls-identity.ts";
import type { SeenRow } from "../../testkit/outages/page.ts";
import { type Row, usualHours } from "../../testkit/outages/rows.ts";
import { type Ended, run, runWell } from "../../testkit/programs/child-process.ts";
import { launchRampart } from "../../testkit/programs/rampart-process.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { succeeds } from "../../testkit/time/until.ts";

/** What all scenes share: issuers that are well and not, and the key of the good ones. */
export interface World {
  /** Replaces the names of `rows.ts` in a configuration. */
  readonly filled: (values: unknown) => unknown;
  readonly token: string;
  readonly csrPem: string;
  readonly tls: TlsIdentity;
  /** One whose certificate has ended. */
  readonly over: TlsIdentity;
}

export async function createWorld(): Promise<World> {
  const key = await createTokenKey("ES256", "k1");
  const weak = { ...(await createTokenKey("RS256", "weak")).publicJwk, n: "AQAB".repeat(42) };
  const tls = await createTlsIdentity();
  let origin = "";
  const server = createServer(({ url = "" }, response) => {
    const [, name, ...rest] = url.split("/");
    const issuer = `http://${origin}/${name}`;
    if (name === "broken") return void response.writeHead(500).end();
    if (name === "late") response.setHeader("date", new Date(Date.now() - 7_200_000).toUTCString());
    const keys = name === "weak" ? [...jwksOf(key).keys, weak] : jwksOf(key).keys;
    const isKeys = rest.at(-1) === "keys";
    response.end(JSON.stringify(isKeys ? { keys } : { issuer, jwks_uri: `${issuer}/keys` }));
  });
  origin = (await listenOnLoopback(server)).host;
  server.unref();
  const secure = createTlsServer(
    { key: tls.key, cert: tls.ca },
    (_, response) => void response.end(),
  );
  const secureHost = (await listenOnLoopback(secure)).host;
  secure.unref();
  const filled = (values: unknown): unknown =>
    JSON.parse(
      JSON.stringify(values)
        .replaceAll('"KEYS"', JSON.stringify(jwksOf(key)))
        .replaceAll("https://ISSUER", `https://${secureHost}`)
        .replaceAll("ISSUER/", `${origin}/`),
    );
  return {
    filled,
    token: await mintAccountToken(key, "https://a.test", "shop:cart", new Date()),
    csrPem: (await createWorkload()).csrPem,
    tls,
    over: await identityThatIsOver(),
  };
}

/** Below the ports that the system gives to whoever asks for any, so that nobody takes one meanwhile. */
let nextPort = 21_000;

async function freeAddress(): Promise<string> {
  for (; ; nextPort++) {
    const server = createServer().listen(nextPort, "127.0.0.1");
    const isFree = await succeeds(once(server, "listening"));
    server.close();
    if (isFree) return `127.0.0.1:${nextPort++}`;
  }
}

async function identityThatIsOver(): Promise<World["over"]> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const made = await X509CertificateGenerator.createSelfSigned({
    name: "CN=over",
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date("2025-01-01T00:00:00Z"),
    notAfter: new Date("2025-02-01T00:00:00Z"),
  });
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  return { ca: made.toString("pem"), key: PemConverter.encode(pkcs8, "PRIVATE KEY") };
}

/** What a CA says at one moment. */
export interface Said {
  /** Of `/readyz`; `undefined` where nobody answers. */
  readonly status: number | undefined;
  readonly reasons: readonly string[];
  /** Of the console; `undefined` where nobody answers. */
  readonly page: { readonly ready: boolean; readonly says: readonly string[] } | undefined;
  /** The exposition; empty where nobody answers. */
  readonly metrics: string;
  readonly doctor: SeenRow["doctor"];
  /** The events of level `warning` and `error` since the start. */
  readonly events: readonly string[];
}

type Server = ReturnType<typeof launchRampart>;

/** A bucket beside a scene, which is as the files in the folder `bucket` say: `away`, `slow`, `refusing` or `behind`. */
async function startBucket(folder: string) {
  const api = await startS3Api();
  const is = (state: string): boolean => existsSync(join(folder, "bucket", state));
  api.instead = (request, response) => {
    if (is("away")) return response.destroy() !== undefined;
    if (is("slow")) return true;
    if (!is("behind")) api.shown = undefined;
    else if (!api.shown) {
      api.shown = new Map(api.objects);
      // Another replica has had its turn since.
      api.put(`${api.place.prefix}rotation`, "{}");
    }
    if (!is("refusing") || request.method === "GET") return false;
    return response.writeHead(403).end("<Error><Code>AccessDenied</Code></Error>") !== undefined;
  };
  const values = {
    STORE: "s3",
    STORE_BUCKET: api.place.url.split("/").at(-1),
    STORE_PREFIX: api.place.prefix,
    S3_ENDPOINT: api.origin,
    S3_REGION: api.place.region,
    S3_CREDENTIALS_FILE: "credentials",
    STORE_DIRECTORY: undefined,
    PROPAGATION_INTERVAL: "10s",
  };
  return { ...api, values };
}

/** What Node runs first, so that the clock of a program differs as the file `clock` says, in seconds. */
const clockOfFolder = `import { readFileSync } from "node:fs";
const now = Date.now;
let [read, ahead] = [0, 0];
Date.now = () => {
  if (now() - read > 1000) {
    read = now();
    try { ahead = 1000 * Number(readFileSync(new URL("clock", import.meta.url), "utf8")); } catch { ahead = 0; }
  }
  return now() + ahead;
};
globalThis.Date = new Proxy(Date, {
  construct: (target, values, made) => Reflect.construct(target, values.length > 0 ? values : [Date.now()], made),
});
`;

export class Scene {
  readonly row: Row;
  readonly folder: string;
  #server: Server | undefined;
  #bucket: Awaited<ReturnType<typeof startBucket>> | undefined;

  private constructor(row: Row, folder: string) {
    this.row = row;
    this.folder = folder;
  }

  static async create(row: Row, world: World): Promise<Scene> {
    const folder = await lastingFolder();
    const scene = new Scene(row, folder);
    const bucket = row.store === "bucket" ? await startBucket(folder) : undefined;
    if (bucket) scene.#bucket = bucket;
    const octets = crypto.getRandomValues(new Uint8Array(32));
    const values = {
      STORE_DIRECTORY: join(folder, "store"),
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      LISTEN: "127.0.0.1:0",
      PLAINTEXT_LISTEN: "127.0.0.1:0",
      // The doctor asks there.
      MONITORING_LISTEN: await freeAddress(),
      TRUST_DOMAIN: "cluster.local",
      PROPAGATION_INTERVAL: "0s",
      ISSUERS: [{ issuer: "https://a.test", jwks: "KEYS" }],
      ...bucket?.values,
      ...row.values,
    };
    const program = resolve("src/cli/main.ts");
    const files: Record<string, string> = {
      kek: `k1:${Buffer.from(octets).toString("base64")}\n`,
      "rampart.toml": stringify(world.filled(values) as Record<string, unknown>),
      "tls.crt": world.tls.ca,
      "tls.key": world.tls.key,
      "over.crt": world.over.ca,
      "over.key": world.over.key,
      "clock.mjs": clockOfFolder,
      credentials: `[default]\naws_access_key_id=${s3Credential.accessKeyId}\naws_secret_access_key=${s3Credential.secretAccessKey}\n`,
      token: world.token,
      "call.json": JSON.stringify({ csr: world.csrPem, validityDuration: "3600" }),
      "bin/rampart": `#!/bin/sh\n[ -e kek ] && export KEK="$(cat kek)"\nexec ${process.execPath} ${program} "$@"\n`,
      "bin/ask": `#!/bin/sh\nfor i in 1 2 3; do curl -s -o answer -H "authorization: Bearer $(cat token)" -H "content-type: application/json" --data @call.json "http://$(cat address)/istio.v1.auth.IstioCertificateService/CreateCertificate"; done\n`,
    };
    await mkdir(join(folder, "bin"));
    await mkdir(join(folder, "bucket"));
    await mkdir(join(folder, "store"), { mode: 0o700 });
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(folder, name), text, { mode: name.startsWith("bin/") ? 0o700 : 0o600 });
    }
    if (row.store === "small disk") {
      await runWell("mount", [
        "-t",
        "tmpfs",
        "-o",
        "size=32m,mode=700",
        "tmpfs",
        join(folder, "store"),
      ]);
    }
    const hours = "hours" in row ? row.hours : usualHours;
    const store = await FileStore.open(join(folder, "store"));
    if (hours) {
      const seconds = hours.map((each) => each * 3600) as [number, number, number, number];
      const ring = [await Kek.import("k1", octets)] as const;
      const record = await sealNewAuthority(ring, scheduleAfter(new Date(), seconds));
      await store.put(record);
      bucket?.put(`${bucket.place.prefix}${RecordName.key(record)}`, record.value);
    }
    return scene;
  }

  /** Types shell in the folder. */
  async type(words: string): Promise<Ended> {
    if (words === "kill") {
      await this.#server?.end("SIGKILL");
      return { exitCode: 0, signal: null, stdout: "", stderr: "" };
    }
    return run("sh", ["-c", words], {
      folder: this.folder,
      environment: {
        PATH: `${this.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
        HOME: this.folder,
        RAMPART_PASSPHRASE: "correct horse battery staple",
        ...this.#environment,
      },
    });
  }

  /** Of the program and of the verbs, which run on one machine. */
  get #environment(): Record<string, string> {
    return {
      CLUSTER_CREDENTIAL_A: "token",
      ...(this.row.hasOwnClock && { NODE_OPTIONS: `--import=${join(this.folder, "clock.mjs")}` }),
    };
  }

  async start(): Promise<void> {
    const kek = await readFile(join(this.folder, "kek"), "utf8").catch(() => undefined);
    this.#server = launchRampart(["serve", "-c", "rampart.toml"], {
      folder: this.folder,
      environment: {
        HOME: this.folder,
        ...this.#environment,
        ...(kek !== undefined && { KEK: kek.trim() }),
      },
    });
    await this.#server.portOf("monitoring").catch(() => {});
    // Callers' plaintext port comes after the monitoring port, where it comes.
    const plaintext = this.#server.addressOf("plaintext").catch(() => "");
    void plaintext
      .then((address) => writeFile(join(this.folder, "address"), address))
      .catch(() => {});
  }

  readonly stop = async (): Promise<void> => void (await this.#server?.end("SIGKILL"));

  async end(): Promise<void> {
    await this.stop();
    await this.#bucket?.close();
    const mounts = (await readFile("/proc/mounts", "utf8")).split("\n");
    const here = mounts.flatMap((line) => line.split(" ")[1] ?? []);
    for (const place of here.filter((each) => each.startsWith(`${this.folder}/`)))
      await run("umount", ["-l", place]);
  }

  readonly #ask = async (path: string, init?: RequestInit): Promise<Response | undefined> => {
    const isAlive =
      this.#server?.process.exitCode === null && this.#server.process.signalCode === null;
    if (!this.#server || !isAlive) return undefined;
    const port = await this.#server.portOf("monitoring").catch(() => 0);
    const signal = AbortSignal.timeout(20_000);
    return fetch(`http://127.0.0.1:${port}${path}`, { ...init, signal }).catch(() => undefined);
  };

  async readiness(): Promise<Pick<Said, "status" | "reasons">> {
    const answer = await this.#ask("/readyz");
    const { reasons = [] } = answer ? await answer.json() : {};
    return { status: answer?.status, reasons };
  }

  async metrics(): Promise<string> {
    return (await (await this.#ask("/metrics"))?.text()) ?? "";
  }

  async doctor(): Promise<Said["doctor"]> {
    const { exitCode, stdout } = await this.type("rampart doctor --json");
    const { findings = [] } = exitCode === 1 ? {} : JSON.parse(stdout);
    // The Node that plays may have faults that no row is about.
    const told: readonly Finding[] = findings.filter(
      ({ severity, name }: Finding) => severity !== "note" && name !== "node-version",
    );
    const says = told.map(({ what }) => what);
    return {
      code: exitCode === 3 && told.length === 0 ? 0 : exitCode,
      findings: [...new Set(told.map(({ name }) => name))].toSorted(),
      says,
    };
  }

  async said(): Promise<Said> {
    const status = await this.#ask("/rampart.status.v1.StatusService/GetStatus", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    const told = await status?.json();
    const names = (told?.checkup?.findings ?? []).map(({ name }: { name: string }) => name);
    // The Node that plays may have faults that no row is about.
    const lines = (this.#server?.lines ?? []).filter(
      (line) => !line.includes("lacks the security release"),
    );
    const events = lines.flatMap((line) => {
      const [, event] = /"level":"(?:warning|error)","event":"([a-z-]+)"/.exec(line) ?? [];
      return event === undefined ? [] : [event];
    });
    return {
      ...(await this.readiness()),
      page: told && {
        ready: told.ready ?? false,
        says: [...(told.needsAttention ?? []), ...names],
      },
      metrics: await this.metrics(),
      doctor: await this.doctor(),
      events: [...new Set(events)].toSorted(),
    };
  }
}
