import { Agent as HttpAgent, get as httpGet, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, get as httpsGet } from "node:https";
import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { IstioCertificateService } from "../gen/istio/v1/auth/ca_pb.ts";
import { maximumBodyOctets } from "../transport/request-body.ts";
import { readRootFile } from "./root-file.ts";
import { parseTrustBundle } from "./trust-bundle-pem.ts";

/** The CA behind a gateway, over connections that are kept. */
export interface Upstream {
  readonly client: Client<typeof IstioCertificateService>;
  /** PEM of every root of the mesh, as the CA publishes it now. */
  readonly trustBundle: () => Promise<string>;
  readonly close: () => void;
}

const timeoutMilliseconds = 10_000;
const maximumTimeout = 30_000;
const maximumBundleOctets = 256 * 1024;
const connections = { keepAlive: true, maxSockets: 256, maxFreeSockets: 32, timeout: 60_000 };

/** @param rootsFile PEM of the roots of its certificate, instead of the system's. */
export async function openUpstream(url: string, rootsFile: string | undefined): Promise<Upstream> {
  const ca = await readRootFile(rootsFile);
  const isSecure = url.startsWith("https:");
  const agent = isSecure
    ? new HttpsAgent({ ...connections, ...(ca !== undefined && { ca }), minVersion: "TLSv1.2" })
    : new HttpAgent(connections);
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    useBinaryFormat: true,
    // A compressed message does not pass Cloudflare's edge (platform facts, §1).
    acceptCompression: [],
    readMaxBytes: 4 * maximumBodyOctets,
    defaultTimeoutMs: maximumTimeout,
    nodeOptions: { agent },
  });
  return {
    client: createClient(IstioCertificateService, transport),
    trustBundle: async () => {
      const get = isSecure ? httpsGet : httpGet;
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        const signal = AbortSignal.timeout(timeoutMilliseconds);
        get(`${url}/bundle.pem`, { agent, signal }, resolve).on("error", reject);
      });
      return parseTrustBundle(await textOf(response));
    },
    close: () => agent.destroy(),
  };
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let octets = 0;
  for await (const chunk of response) {
    octets += chunk.length;
    if (octets > maximumBundleOctets) throw new Error("the trust bundle is too large");
    chunks.push(chunk);
  }
  if (response.statusCode !== 200) {
    throw new Error(`the CA answers ${response.statusCode} for its trust bundle`);
  }
  return Buffer.concat(chunks).toString("utf8");
}
