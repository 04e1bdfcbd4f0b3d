import type { AuditEvent } from "../../src/ca/issuance/audit-event.ts";
import { EventLog } from "../../src/ca/issuance/event-log.ts";
import { issueCertificate } from "../../src/ca/issuance/issue-certificate.ts";
import { issueToken } from "../../src/ca/issuance/issue-token.ts";
import { Mint, mintTokenKey } from "../../src/ca/mint.ts";
import { Composition, type Platform } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { WriteLine } from "../../src/foundation/events.ts";
import { Schedule } from "../../src/pki/authority/schedule.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createKvStore } from "../../src/worker/kv-store.ts";
import worker from "../../src/worker/main.ts";
import {
  type Credentials,
  createCryptoFloor,
  createTokenFloor,
  tokenAudience,
} from "./crypto-floor.ts";
import { createReference } from "./reference.ts";

interface Environment {
  readonly AUTHORITIES: KVNamespace;
  readonly [key: string]: unknown;
}

type Work = () => Promise<unknown>;

const clock = () => new Date();
const log = EventLog.create(clock, WriteLine.toConsole);

const prepared = new Map<string, Work>();

const preparations: Readonly<
  Record<string, (credentials: Credentials, environment: Environment) => Promise<Work>>
> = {
  floor: async (credentials, environment) =>
    createCryptoFloor(credentials, await tokenKey(environment)),
  reference: async (credentials, environment) =>
    createReference(credentials, await tokenKey(environment)),
  issue: createIssue,
  "token-floor": async (credentials, environment) =>
    createTokenFloor(credentials, await tokenKey(environment)),
  token: createTokenIssue,
};

/** The Worker under measurement, with more routes that repeat its parts. */
export default {
  async fetch(request: Request, environment: Environment): Promise<Response> {
    const url = new URL(request.url);
    const [, folder, name = ""] = url.pathname.split("/");
    if (folder !== "bench") return worker.fetch(request, counted(environment));
    if (name === "store-reads") return new Response(String(storeReads));
    if (name === "echo") return new Response(await request.arrayBuffer());
    if (name === "first-authority") {
      await storeFirstAuthority(environment);
      return new Response();
    }
    const work = prepared.get(name) ?? (await prepare(name, request, environment));
    const times = Number(url.searchParams.get("times"));
    for (let i = 0; i < times; i++) await work();
    return new Response();
  },
};

/** Stores keys that sign at once; real first ones would wait for the propagation interval. */
async function storeFirstAuthority({ AUTHORITIES, ...values }: Environment): Promise<void> {
  const platform = platformOn(AUTHORITIES);
  const { mint } = await Composition.compose(Configuration.parse(values), platform);
  const { propagationSeconds } = mint.phaseLengths;
  const published = addSeconds(new Date(), -2 * propagationSeconds);
  const schedule = Schedule.first(mint.phaseLengths, published);
  await Mint.mintAuthority(mint, schedule);
  if (mint.tokenAlgorithm) await mintTokenKey(mint, mint.tokenAlgorithm, schedule);
}

function platformOn(namespace: KVNamespace): Platform {
  const store = createKvStore(namespace);
  const fetchTrusting = () => (url: string, init: RequestInit) => fetch(url, init);
  return { store, cryptoProvider: webCryptoProvider, fetching: { fetchTrusting }, log, clock };
}

let storeReads = 0;
let countedEnvironment: Environment | undefined;

/** The environment with a namespace that counts its operations. */
function counted(environment: Environment): Environment {
  countedEnvironment ??= {
    ...environment,
    AUTHORITIES: new Proxy(environment.AUTHORITIES, {
      get(namespace, name) {
        const member: unknown = Reflect.get(namespace, name);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          storeReads++;
          return Reflect.apply(member, namespace, args);
        };
      },
    }),
  };
  return countedEnvironment;
}

async function prepare(name: string, request: Request, environment: Environment): Promise<Work> {
  const preparation = preparations[name];
  if (!preparation) throw new Error(`no benchmark named ${name}`);
  const token = request.headers.get("authorization")?.slice("Bearer ".length) ?? "";
  const work = await preparation({ token, csrPem: await request.text() }, environment);
  prepared.set(name, work);
  return work;
}

/** Issues from credential and CSR to PEM, without the wire. */
async function createIssue(
  { token, csrPem }: Credentials,
  environment: Environment,
): Promise<Work> {
  const { authenticate, issuance } = await authorityOf(environment);
  const headers = new Headers({ authorization: `Bearer ${token}`, clusterid: "Kubernetes" });
  const request = { csrPem, requestedSeconds: 86_400n, impersonatedIdentity: "", certSigner: "" };
  const { signal } = new AbortController();
  return async () => {
    const now = new Date();
    const audit: AuditEvent = { event: "create-certificate", outcome: "refused", requestId: "" };
    const caller = await authenticate({ headers }, now);
    return issueCertificate(issuance, caller, request, { now, signal, audit });
  };
}

/** Issues from credential to JWT-SVID, without the wire. */
async function createTokenIssue({ token }: Credentials, environment: Environment): Promise<Work> {
  const { authenticate, issuance } = await authorityOf(environment);
  const headers = new Headers({ authorization: `Bearer ${token}`, clusterid: "Kubernetes" });
  const request = { audiences: [tokenAudience], requestedSeconds: 0n, spiffeId: "" };
  const { signal } = new AbortController();
  return async () => {
    const now = new Date();
    const audit: AuditEvent = { event: "create-token", outcome: "refused", requestId: "" };
    const caller = await authenticate({ headers }, now);
    return issueToken(issuance, caller, request, { now, signal, audit });
  };
}

async function authorityOf({ AUTHORITIES, ...values }: Environment) {
  const platform = platformOn(AUTHORITIES);
  return (await Composition.compose(Configuration.parse(values), platform)).certificateAuthority;
}

async function tokenKey({ ISSUERS }: Environment): Promise<CryptoKey> {
  const [{ jwks_uri }] = JSON.parse(String(ISSUERS)) as [{ jwks_uri: string }];
  const { keys } = await (await fetch(jwks_uri)).json<{ keys: [JsonWebKey] }>();
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  return crypto.subtle.importKey("jwk", keys[0], algorithm, false, ["verify"]);
}
