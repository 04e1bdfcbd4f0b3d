import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import {
  endpoint,
  httpConnections,
  socketAddress,
  typeUrl,
} from "../../../src/agent/envoy/tls-contexts.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { rule } from "../kubernetes/cluster/accounts.ts";
import { startControlPlane } from "../kubernetes/cluster/control-plane.ts";
import type { ControlPlanePrograms } from "../kubernetes/cluster/programs.ts";

/** What every relying party has to know about the issuer. */
export interface Issuer {
  /** The `iss` of its tokens, and where its documents are. */
  readonly url: string;
  /** A PEM file with the root of that server. */
  readonly rootFile: string;
  readonly root: string;
}

export const audience = "https://relying.test";

export interface RelyingParty {
  readonly name: string;
  /** The subject that it reads in the token, or `refused` and why. */
  readonly judge: (token: string) => Promise<string>;
  readonly end: () => Promise<unknown>;
}

/** A program that answers each line with a line. */
export type Answerer = ReturnType<typeof startAnswerer>;

/** A program that has ended answers everything with its end. */
export function startAnswerer(
  program: string,
  words: readonly string[],
  environment: NodeJS.ProcessEnv = {},
) {
  const env = { ...process.env, ...environment };
  const child = spawn(program, words, { env, stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  child.stdin.on("error", () => undefined);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    ask: async (line: string): Promise<string> => {
      child.stdin.write(`${line}\n`);
      const { value, done } = await lines.next();
      return done ? `${program} has ended` : value;
    },
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

/** PyJWT, which fetches the key set for each token. */
export function startPyJwt(python: string, { url, rootFile }: Issuer): RelyingParty {
  const program = join(import.meta.dirname, "pyjwt.py");
  const words = [program, `${url}/.well-known/jwks.json`, url, audience, rootFile];
  const { ask, end } = startAnswerer(python, words);
  return { name: "PyJWT", judge: ask, end };
}

/** Vault's JWT auth method, which finds the key set by discovery and caches it. */
export function startVault(program: string, { url, root }: Issuer): RelyingParty {
  const config = { oidc_discovery_url: url, oidc_discovery_ca_pem: root, bound_issuer: url };
  const role = { role_type: "jwt", user_claim: "sub", bound_audiences: audience, policies: "cart" };
  const words = [JSON.stringify(config), JSON.stringify(role)];
  const { ask, end } = startAnswerer(program, words);
  return { name: "Vault's JWT auth method", judge: ask, end };
}

/** Envoy's `jwt_authn`. It refreshes its key set each second, and shows the subject that it forwards. */
export async function startEnvoy(
  program: string,
  { url, rootFile }: Issuer,
  folder: string,
): Promise<RelyingParty> {
  const [port = 0] = await freePorts(1);
  const file = join(folder, "envoy.json");
  await writeFile(file, JSON.stringify(bootstrap(new URL(url), rootFile, port)));
  const words = ["-c", file, "--base-id", String(port), "--log-level", "error"];
  const child = startChild(program, words, { logFile: join(folder, "envoy.log") });
  const ask = async (token: string): Promise<string> => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers }).catch(() => undefined);
    const text = (await response?.text()) ?? "no answer";
    const subject = response?.headers.get("x-subject");
    return response?.status === 200 && subject ? subject : `refused: ${text}`;
  };
  for (let i = 0; i < 100 && (await ask("")) === "refused: no answer"; i++) await sleep(100);
  return { name: "Envoy's jwt_authn", judge: ask, end: () => child.end() };
}

function bootstrap({ href, hostname, port }: URL, rootFile: string, listenPort: number): object {
  const issuer = href.replace(/\/$/, "");
  const uri = `${issuer}/.well-known/jwks.json`;
  const provider = {
    issuer,
    audiences: [audience],
    remote_jwks: { http_uri: { uri, cluster: "issuer", timeout: "5s" }, cache_duration: "1s" },
    claim_to_headers: [{ header_name: "x-subject", claim_name: "sub" }],
  };
  const authentication = {
    name: "jwt",
    typed_config: {
      "@type": typeUrl("envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"),
      providers: { rampart: provider },
      rules: [{ match: { prefix: "/" }, requires: { provider_name: "rampart" } }],
    },
  };
  const connections = httpConnections(
    "in",
    {},
    {
      match: { prefix: "/" },
      direct_response: { status: 200 },
      response_headers_to_add: [{ header: { key: "x-subject", value: "%REQ(x-subject)%" } }],
    },
  ) as { readonly typed_config: { http_filters: object[] } };
  connections.typed_config.http_filters.unshift(authentication);
  const tls = {
    "@type": typeUrl("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
    common_tls_context: { validation_context: { trusted_ca: { filename: rootFile } } },
  };
  const cluster = {
    name: "issuer",
    load_assignment: endpoint("issuer", socketAddress({ host: hostname, port: Number(port) })),
    transport_socket: { name: "tls", typed_config: tls },
  };
  const address = socketAddress({ host: "127.0.0.1", port: listenPort });
  const listener = { address, filter_chains: [{ filters: [connections] }] };
  return { static_resources: { listeners: [listener], clusters: [cluster] } };
}

const cart = "spiffe://cluster.local/ns/shop/sa/cart";

/** kube-apiserver with structured authentication. A token that it accepts may read what the role allows. */
export async function startApiServer(
  programs: ControlPlanePrograms,
  { url, root }: Issuer,
  folder: string,
): Promise<RelyingParty> {
  const file = join(folder, "authentication.json");
  const issuer = { url, audiences: [audience], certificateAuthority: root };
  const username = { claim: "sub", prefix: "" };
  await writeFile(
    file,
    JSON.stringify({
      apiVersion: "apiserver.config.k8s.io/v1",
      kind: "AuthenticationConfiguration",
      jwt: [{ issuer, claimMappings: { username } }],
    }),
  );
  const plane = await startControlPlane(programs, [`--authentication-config=${file}`]);
  const group = "rbac.authorization.k8s.io";
  const metadata = { name: "cart" };
  const rules = [rule("", ["configmaps"], ["list"])];
  await plane.call("POST", `/apis/${group}/v1/clusterroles`, { metadata, rules });
  await plane.call("POST", `/apis/${group}/v1/clusterrolebindings`, {
    metadata,
    roleRef: { apiGroup: group, kind: "ClusterRole", name: "cart" },
    subjects: [{ apiGroup: group, kind: "User", name: cart }],
  });
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const judge = async (token: string): Promise<string> => {
    try {
      const call = plane.callAs(token);
      await call("GET", "/api/v1/namespaces/default/configmaps");
      const { status } = await call(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
      );
      return (status as { userInfo: { username: string } }).userInfo.username;
    } catch (error) {
      return `refused: ${error}`;
    }
  };
  return { name: "kube-apiserver", judge, end: plane.stop };
}
