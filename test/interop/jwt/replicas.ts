import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocalJWKSet, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from "jose";
import { mintTokenKey } from "../../../src/ca/mint.ts";
import type { Fetch } from "../../../src/foundation/fetch.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { NodeFetch } from "../../../src/program/http/http-client.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { until } from "../../testkit/time/until.ts";
import type { Outcome } from "../outcomes.ts";
import { createReplica, type Replica } from "../replicas/replica.ts";
import type { SharedService } from "../replicas/shared-service.ts";
import { seedHistory } from "../replicas/story.ts";
import { audience } from "./relying-parties.ts";

const issuer = "https://issuer.example.com";
const ownIssuer = "https://ca.example.com";
const day = 24 * 3600;

/** How long one key signs, by the plan. The history ends this close before its successor's turn. */
const signingSeconds = 28 * day;
const propagationSeconds = 15;

/** A relying party that has fetched a key set once, and keeps it for as long as the answer declares. */
interface RelyingCache {
  readonly fetchedAt: number;
  readonly until: number;
  readonly verifies: (token: string) => Promise<boolean>;
}

interface Seen {
  readonly token: string;
  readonly keyId: string;
}

/** Two processes of `rampart serve` on one bucket, and those who rely on their tokens. */
class Story {
  readonly #replicas: readonly Replica[];
  readonly #fetch: Fetch;
  readonly #credential: () => Promise<string>;
  readonly #caches: RelyingCache[] = [];
  readonly tokens: Seen[] = [];
  readonly faults = new Set<string>();
  checks = 0;
  #turn = 0;

  constructor(replicas: readonly Replica[], roots: string, credential: () => Promise<string>) {
    this.#replicas = replicas;
    this.#fetch = NodeFetch.trusting(roots);
    this.#credential = credential;
  }

  /** A token of each replica, held against every cache, and one more cache. */
  async step(withdrawn?: string): Promise<void> {
    for (const replica of this.#replicas) {
      const token = await this.#obtain(replica);
      const keyId = String(decodeProtectedHeader(token).kid);
      this.tokens.push({ token, keyId });
      await this.#hold(token, keyId, withdrawn);
    }
    this.#caches.push(await this.#fetchKeys());
    await sleep(250);
  }

  /** Everybody holds every token that lives, once more. */
  async holdAll(withdrawn: string): Promise<void> {
    for (const { token, keyId } of this.tokens) await this.#hold(token, keyId, withdrawn);
  }

  /** The key of the last token of each replica, if it is one. */
  get key(): string | undefined {
    const [one, other] = this.tokens.slice(-2);
    return one?.keyId === other?.keyId ? one?.keyId : undefined;
  }

  /** Whether whoever asks a replica now takes a token of this key. */
  async takesNow(keyId: string): Promise<boolean> {
    const { token } = this.tokens.findLast((each) => each.keyId === keyId) ?? { token: "" };
    const now = await Promise.all(this.#replicas.map(() => this.#fetchKeys()));
    const verdicts = await Promise.all(now.map(({ verifies }) => verifies(token)));
    return verdicts.includes(true);
  }

  async #hold(token: string, keyId: string, withdrawn: string | undefined): Promise<void> {
    if (keyId === withdrawn) return;
    for (const { fetchedAt, until: end, verifies } of this.#caches) {
      if (Date.now() >= end) continue;
      this.checks++;
      if (await verifies(token)) continue;
      const age = Math.round((Date.now() - fetchedAt) / 1000);
      this.faults.add(`a key set of ${age} s refuses a live token of ${keyId.slice(0, 12)}`);
    }
  }

  async #obtain({ port }: Replica): Promise<string> {
    const response = await this.#fetch(
      `https://localhost:${port}/rampart.jwt.v1.JwtSvidService/CreateJwtSvid`,
      {
        method: "POST",
        headers: {
          authorization: `Bearer ${await this.#credential()}`,
          "content-type": "application/json",
        },
        body: JSON.stringify({ audiences: [audience] }),
      },
    );
    const { token, message }: { token?: string; message?: string } = await response.json();
    if (token === undefined) throw new Error(`no token: ${response.status} ${message}`);
    return token;
  }

  async #fetchKeys(): Promise<RelyingCache> {
    const { port } = this.#replicas[this.#turn++ % this.#replicas.length] ?? { port: 0 };
    const response = await this.#fetch(`https://localhost:${port}/.well-known/jwks.json`, {});
    const [, seconds = "0"] =
      /max-age=(\d+)/.exec(response.headers.get("cache-control") ?? "") ?? [];
    const keys = createLocalJWKSet((await response.json()) as JSONWebKeySet);
    const fetchedAt = Date.now();
    const verifies = (token: string): Promise<boolean> =>
      jwtVerify(token, keys, { issuer: ownIssuer, audience }).then(
        () => true,
        () => false,
      );
    return { fetchedAt, until: fetchedAt + 1000 * Number(seconds), verifies };
  }
}

/** A rotation by the plan, then a taint of the key that signs, while relying parties keep what they have. */
export async function playReplicatedTokens(folder: string): Promise<Outcome> {
  await using cleanup = new AsyncDisposableStack();
  const api = await startS3Api();
  cleanup.defer(api.close);
  const own = join(folder, "replicas");
  await mkdir(own);
  const key = await createTokenKey("ES256", "k1");
  const keys = {
    JWT_ISSUER: ownIssuer,
    PROPAGATION_INTERVAL: `${propagationSeconds}s`,
    SERVING_NAMES: ["localhost"],
    STORE_PREFIX: "mesh-1/",
    ISSUERS: [{ issuer, jwks: jwksOf(key), jwt_audiences: [audience] }],
  };
  const service = bucketService(api);
  const replicas = [
    await createReplica("a", own, service, keys),
    await createReplica("b", own, service, keys),
  ];
  for (const each of replicas) cleanup.defer(each.end);
  // They start before the history, which otherwise goes on while a slow machine starts them.
  for (const { link } of replicas) link.hold();
  const started = replicas.map((each) => each.start());
  for (const each of replicas) await until(`${each.name} is not alive`, each.isAlive);
  await seedStore(service, keys);
  for (const { link } of replicas) link.mend();
  await Promise.all(started);
  const [a] = replicas;
  for (const each of replicas) await until(`${each.name} is not ready`, each.isReady);
  const story = new Story(replicas, (await a?.bundle()) ?? "", () =>
    mintAccountToken(key, issuer, "shop:cart", new Date()),
  );
  await story.step();
  const first = story.key;
  await passUntil("the successor does not sign", story, (now) => now !== first);
  const second = story.key ?? "";
  const words = ["authority", "taint", second, "--root", "immediately", "--yes"];
  await runRampart([...words, "--config", a?.configurationFile ?? ""], service);
  await passUntil("nobody signs in its place", story, (now) => now !== second, second);
  await until("a tainted key is published", async () => !(await story.takesNow(second)));
  await story.holdAll(second);
  const used = new Set(story.tokens.map(({ keyId }) => keyId));
  if (used.size !== 3) story.faults.add(`${used.size} keys have signed, not 3`);
  const { checks, faults, tokens } = story;
  console.log(`jwt: ${tokens.length} tokens of two replicas, ${checks} judged by cached key sets`);
  return {
    client: "relying parties that cache",
    server: "two replicas of serve, a rotation and a taint",
    passed: checks - faults.size,
    faults: [...faults],
  };
}

async function passUntil(
  what: string,
  story: Story,
  isSo: (key: string) => boolean,
  withdrawn?: string,
): Promise<void> {
  await until(what, async () => {
    await story.step(withdrawn);
    return story.key !== undefined && isSo(story.key);
  });
}

function bucketService({ place, origin }: Awaited<ReturnType<typeof startS3Api>>): SharedService {
  const { bucket, region } = place;
  return {
    name: "a bucket",
    port: Number(new URL(origin).port),
    keysBehind: (port) => ({
      STORE: "s3",
      STORE_BUCKET: bucket,
      S3_REGION: region,
      S3_ENDPOINT: `http://127.0.0.1:${port}`,
    }),
    environment: {
      KEK: randomKek(),
      AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
    },
    space: new BucketSpace(place, NodeFetch.trusting(undefined), () => new Date()),
    restart: async () => undefined,
  };
}

/** A history of four weeks, whose second key signs in some seconds, and a third one for the taint. */
async function seedStore(service: SharedService, keys: object): Promise<void> {
  const { environment, port } = service;
  const now = new Date();
  const founded = addSeconds(now, -signingSeconds);
  const INCEPTION_DATE = founded.toISOString().slice(0, 10);
  const whole = { ...keys, ...service.keysBehind(port), KEK: environment.KEK, INCEPTION_DATE };
  const configuration = ServeConfiguration.parse(whole, environment);
  const history = { founded, now, secondsBetweenRotations: day / 4 };
  const store = createSharedStore(service.space);
  const mint = await seedHistory(configuration, store, history);
  const [begin, end] = [addSeconds(now, -2 * day), addSeconds(now, 2 * signingSeconds)];
  const schedule = { publishedFrom: begin, signsFrom: begin, signsUntil: end, retiresAt: end };
  await mintTokenKey(mint, "ES256", schedule);
}
