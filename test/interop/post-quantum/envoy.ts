import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import { httpConnections, socketAddress } from "../../../src/agent/envoy/tls-contexts.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { envoyOf } from "../envoy.ts";
import type { Shown } from "./certificates.ts";
import type { Question } from "./main.ts";

/** What an Envoy trusts in one question, and the certificate of its caller. */
interface Scene {
  readonly roots: string;
  readonly leaf: string;
  /** By default that of the leaf with an EC key. */
  readonly key?: string;
  readonly crl?: string;
}

/** Asks an Envoy by a handshake with a client certificate. An Envoy that does not start has its words in the log. */
export function askEnvoy(python: string, shown: Shown, folder: string) {
  return async (question: Question): Promise<string | undefined> => {
    const envoy = await envoyOf(python);
    const { postQuantumRoot, classicalRoot, leaf, ownKeyLeaf, ownKey, classicalLeaf, crl } = shown;
    const scenes: Readonly<Record<Question, Scene>> = {
      leaf: { roots: postQuantumRoot, leaf },
      ownKeyLeaf: { roots: postQuantumRoot, leaf: ownKeyLeaf, key: ownKey },
      crl: { roots: postQuantumRoot, leaf, crl },
      stranger: { roots: postQuantumRoot, leaf: classicalLeaf },
      both: { roots: classicalRoot + postQuantumRoot, leaf: classicalLeaf },
    };
    return handshake(envoy, scenes[question], shown, join(folder, `envoy-${question}`));
  };
}

async function handshake(
  envoy: string,
  { roots, leaf, key: clientKey, crl }: Scene,
  { classicalLeaf, key }: Shown,
  file: string,
): Promise<string | undefined> {
  const [port = 0] = await freePorts(1);
  const inline = (text: string) => ({ inline_string: text });
  const context = {
    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    require_client_certificate: true,
    common_tls_context: {
      tls_certificates: [{ certificate_chain: inline(classicalLeaf), private_key: inline(key) }],
      validation_context: { trusted_ca: inline(roots), ...(crl && { crl: inline(crl) }) },
    },
  };
  const answer = { match: { prefix: "/" }, direct_response: { status: 200 } };
  const filters = [httpConnections("a", {}, answer)];
  const address = socketAddress({ host: "127.0.0.1", port });
  const transport_socket = { name: "envoy.transport_sockets.tls", typed_config: context };
  const listener = { address, filter_chains: [{ filters, transport_socket }] };
  const bootstrap = { static_resources: { listeners: [listener] } };
  await writeFile(`${file}.json`, JSON.stringify(bootstrap));
  const baseId = process.pid * 4 + 3_000_000;
  const words = ["-c", `${file}.json`, "--base-id", String(baseId), "--concurrency", "1"];
  const child = startChild(envoy, words, { logFile: `${file}.log` });
  try {
    const state = { ended: false };
    void child.ended.then(() => (state.ended = true));
    let said: string | undefined = "no answer";
    await until("Envoy answers or ends", async () => {
      said = await call(port, { key: clientKey ?? key, cert: leaf });
      return state.ended || said !== "ECONNREFUSED";
    });
    return state.ended ? `it does not start: ${child.lines.at(-1) ?? ""}` : said;
  } finally {
    await child.end();
  }
}

/** One request. @returns The code of its failure. */
async function call(port: number, pair: object): Promise<string | undefined> {
  const options = { ...pair, port, host: "127.0.0.1", agent: false, rejectUnauthorized: false };
  const sent = request({ ...options, timeout: 5_000 }).end();
  sent.on("timeout", () => sent.destroy(new Error("no answer within 5 s")));
  try {
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode === 200 ? undefined : String(response.statusCode);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}
