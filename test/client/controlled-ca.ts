import { createServer } from "node:http";
import { issuerTables } from "../contract/service-under-test.ts";
import { toRequest } from "../testkit/agent/http-ca.ts";
import { type RunningCa, startCa } from "../testkit/ca/running-ca.ts";
import { taint } from "../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { listenOnLoopback } from "../testkit/network/loopback.ts";

interface ControlledCa {
  readonly ca: RunningCa;
  /** The answer to every call but those of the control. */
  fault?: { readonly status: number; readonly headers: Record<string, string> } | undefined;
  calls: number;
}

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;

async function foundCa(): Promise<ControlledCa> {
  const ca = await startCa(
    {
      JWT_ISSUER: "https://ca.test",
      MAX_WORKLOAD_CERT_TTL: "24h",
      AUTHORITY_LIFETIME: "240h",
      ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(tokenKey), jwt_audiences: ["*.test"] }],
    },
    { hasNoNamesake: true },
  );
  await ca.found();
  ca.pass(1);
  await ca.rotate();
  return { ca, calls: 0 };
}

/** Each act of the control, by its path below `/control/`. */
const acts: Readonly<Record<string, (of: ControlledCa, query: URLSearchParams) => unknown>> = {
  now: () => {},
  /** Runs the cron at the end. */
  pass: ({ ca }, query) => {
    ca.pass(Number(query.get("seconds")));
    return ca.rotate();
  },
  taint: ({ ca }) => taint(ca, "immediately"),
  fail: (of, query) => {
    const { status = "", ...headers } = Object.fromEntries(query);
    of.fault = status === "" ? undefined : { status: Number(status), headers };
  },
  token: ({ ca }, query) =>
    mintAccountToken(tokenKey, issuer, query.get("account") ?? "foo:bar", ca.now()),
};

/** @returns The name of the CA, the first part of its paths. */
async function found(cas: Map<string, ControlledCa>): Promise<string> {
  const name = `ca-${cas.size}`;
  cas.set(name, await foundCa());
  return name;
}

async function answer(cas: Map<string, ControlledCa>, request: Request): Promise<Response> {
  const url = new URL(request.url);
  if (url.pathname === "/new") return Response.json(`${url.origin}/${await found(cas)}`);
  const [, name = "", rest = ""] = /^\/([^/]+)(\/.*)$/.exec(url.pathname) ?? [];
  const of = cas.get(name);
  if (!of) return new Response(null, { status: 404 });
  const act = acts[rest.replace("/control/", "")];
  if (act) {
    const said = await act(of, url.searchParams);
    return Response.json({ said, now: of.ca.now(), calls: of.calls });
  }
  of.calls++;
  if (of.fault) return new Response("a fault", of.fault);
  return of.ca.app.fetch(new Request(`https://ca.test${rest}`, request));
}

/** Moves the clock of a CA to this machine's, with runs of its cron, so that no key and no authority ends without another. */
export async function passToNow(ca: RunningCa): Promise<void> {
  const left = (): number => (Date.now() - ca.now().getTime()) / 1000;
  while (left() > 1) {
    ca.pass(Math.min(left(), 5 * 86_400));
    await ca.rotate();
  }
}

/**
 * Starts CAs on the loopback address, each below a path of its own, with clocks and faults that their callers control.
 * `POST /new` founds one, and answers its URL.
 */
export async function startControlledCas() {
  const cas = new Map<string, ControlledCa>();
  const server = createServer(async (incoming, outgoing) => {
    const response = await answer(cas, await toRequest(origin, incoming));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(new Uint8Array(await response.arrayBuffer()));
  });
  const { host, close } = await listenOnLoopback(server);
  const origin = `http://${host}`;
  return {
    origin,
    close,
    /** Founds a CA, and mints tokens of the workload `foo:bar` for it. */
    found: async () => {
      const name = await found(cas);
      const { ca } = cas.get(name) ?? (await foundCa());
      const mint = () => mintAccountToken(tokenKey, issuer, "foo:bar", ca.now());
      return { url: `${origin}/${name}`, ca, mint };
    },
  };
}
