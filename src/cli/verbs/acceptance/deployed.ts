import { generateKeyPair, type X509Certificate } from "node:crypto";
import { Agent } from "node:http";
import { promisify } from "node:util";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { type Fetch, FetchError, ResponseBody, toFetchError } from "../../../foundation/fetch.ts";
import { RetryAfter } from "../../../foundation/headers.ts";
import { IstioCertificateService } from "../../../gen/istio/v1/auth/ca_pb.ts";
import { createCertificateRequest } from "../../../program/certificate-request.ts";
import { parseCertificates } from "../../../program/files/pem-file.ts";
import { connectSession, TlsAgent } from "../../../program/http/tunnel.ts";
import type { Terminal } from "../../terminal/terminal.ts";

/** The platforms of a CA, which differ in what they can serve. */
export const platforms = ["serve", "worker", "lambda"] as const;

/** The protocols of an RPC. */
export type Protocol = "connect" | "grpc-web" | "grpc";

/** The CA under test, and the identity that calls it. */
export interface DeployedParts {
  /** The URL of the CA, without a slash at its end. */
  readonly url: string;
  readonly token: string;
  readonly trustDomain: string;
  readonly platform: (typeof platforms)[number];
  /** PEM of the roots of the server's certificate; `undefined` for those of the system. */
  readonly roots: string | undefined;
  readonly fetch: Fetch;
  readonly terminal: Terminal;
}

/** A response with its whole body. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly octets: Uint8Array<ArrayBuffer>;
  readonly text: string;
}

/** A certificate with its intermediates, the leaf first. */
export type Chain = readonly [X509Certificate, ...X509Certificate[]];

/** A call for a certificate. Without a token it has no credential. */
export interface CertificateCall {
  readonly protocol: Protocol;
  readonly csr: string;
  readonly token: string | undefined;
}

/** Why a call got no certificate. */
interface NoCertificate {
  /** `undefined` for a response that is not of the protocol, such as a proxy's. */
  readonly code: Code | undefined;
  readonly said: string;
  /** Whether the answer names a wait. */
  readonly hasWait: boolean;
}

const callMilliseconds = 10_000;
const maximumAnswerOctets = 256 * 1024;
/** The longest document is that of the CRLs. */
const maximumDocumentOctets = 16 << 20;

/** A deployed CA, to which every call is bounded in time and length. It remembers what it got, for later rows. */
export class Deployed {
  readonly parts: DeployedParts;
  /** The chains of all certificates so far. The first one shows the identity. */
  readonly issued: Chain[] = [];
  /** The milliseconds of each call that got a certificate, by protocol. */
  readonly latencies = new Map<string, number[]>();
  readonly #channels = new Map<Protocol, Promise<Channel>>();

  constructor(parts: DeployedParts) {
    this.parts = parts;
  }

  /** The first name of the first certificate; `undefined` before there is one. */
  get identity(): string | undefined {
    return this.issued[0] && nameOf(this.issued[0][0]);
  }

  readonly clock = (): Date => this.parts.terminal.clock();

  /**
   * Reads a path of the CA, or another URL. It follows no redirect, and resolves for every status.
   * @throws FetchError without a whole response in time.
   */
  readonly ask = async (
    target: string,
    headers: Readonly<Record<string, string>> = {},
    milliseconds: number = callMilliseconds,
  ): Promise<Answer> => {
    const { url, fetch } = this.parts;
    const where = target.startsWith("/") ? `${url}${target}` : target;
    const signal = AbortSignal.timeout(milliseconds);
    const response = await fetch(where, { headers, redirect: "manual", signal }).catch(
      (error: unknown) => {
        throw toFetchError(error, "did not answer");
      },
    );
    const octets = await ResponseBody.readOctets(response, maximumDocumentOctets);
    const { status, headers: fields } = response;
    return { status, headers: fields, octets, text: new TextDecoder().decode(octets) };
  };

  /** Asks for a certificate, once. @returns The answer: the chain, then the roots. */
  async #request({ protocol, csr, token }: CertificateCall): Promise<readonly string[]> {
    const channel = this.#channels.get(protocol) ?? openChannel(protocol, this.parts);
    this.#channels.set(protocol, channel);
    const { transport } = await channel;
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const service = createClient(IstioCertificateService, transport);
    const begun = performance.now();
    const sending = { headers, timeoutMs: callMilliseconds };
    const { certChain } = await service.createCertificate({ csr }, sending);
    const known = this.latencies.get(protocol) ?? [];
    this.latencies.set(protocol, [...known, performance.now() - begun]);
    return certChain;
  }

  /** Requests a certificate once. It never rejects. @returns `undefined` if the CA issued one, otherwise why not. */
  readonly request = (call: CertificateCall): Promise<NoCertificate | undefined> =>
    this.#request(call).then(
      () => undefined,
      (error: unknown) => noCertificate(ConnectError.from(error)),
    );

  /**
   * Gets a certificate for a new key, and remembers it, even one of another identity. Its chain is not verified.
   * @throws FetchError for a refusal, and for a certificate of another key or another identity than the first one's.
   */
  async issue(protocol: Protocol): Promise<X509Certificate> {
    const { privateKey, csr } = await newSubject();
    const call = { protocol, csr, token: this.parts.token };
    const answer = await this.#request(call).catch((error: unknown) => {
      throw new FetchError(noCertificate(ConnectError.from(error)).said);
    });
    // The last element has all roots.
    const [leaf, ...others] = answer.slice(0, -1).flatMap(parseCertificates);
    if (!leaf?.checkPrivateKey(privateKey)) throw new FetchError("answered for another key");
    this.issued.push([leaf, ...others]);
    if (nameOf(leaf) === this.identity) return leaf;
    throw new FetchError(`answered for ${nameOf(leaf)}, and for ${this.identity} before`);
  }

  /** Ends the connections of calls. */
  async close(): Promise<void> {
    const opened = await Promise.allSettled(this.#channels.values());
    for (const each of opened) if (each.status === "fulfilled") each.value.close();
  }
}

/** How an RPC is sent. */
interface Channel {
  readonly transport: Transport;
  readonly close: () => void;
}

async function openChannel(protocol: Protocol, { url, roots }: DeployedParts): Promise<Channel> {
  const limits = { baseUrl: url, readMaxBytes: maximumAnswerOctets };
  const tls = roots === undefined ? {} : { ca: roots };
  if (protocol === "grpc") {
    const socket = await connectSession(new URL(url).origin, tls);
    const sessionManager = new Http2SessionManager(url, {}, { createConnection: () => socket });
    const transport = createGrpcTransport({ ...limits, sessionManager });
    return { transport, close: () => sessionManager.abort() };
  }
  const agent = url.startsWith("http:") ? new Agent() : new TlsAgent({ ...tls, keepAlive: true });
  const options = { ...limits, httpVersion: "1.1" as const, nodeOptions: { agent } };
  const create = protocol === "connect" ? createConnectTransport : createGrpcWebTransport;
  return { transport: create(options), close: () => agent.destroy() };
}

const generate = promisify(generateKeyPair);

/** Makes a P-256 key and its request, which asks for no name. */
export async function newSubject() {
  const keys = await generate("ec", { namedCurve: "P-256" });
  return { ...keys, csr: await createCertificateRequest(keys, undefined) };
}

/** The first name of a leaf, which is a SPIFFE ID. */
const nameOf = ({ subjectAltName = "" }: X509Certificate): string =>
  subjectAltName.replace(/^URI:([^,]*).*$/s, "$1");

function noCertificate(error: ConnectError): NoCertificate {
  const { code, cause, rawMessage, isWireError, metadata } = error;
  const hasWait = metadata.has(RetryAfter.header);
  if (isWireError) return { code, said: `the CA answered ${Code[code]}: ${rawMessage}`, hasWait };
  const whose = cause === undefined ? "something in front of the CA answered" : "no answer of a CA";
  return { code: undefined, said: `${whose}: ${rawMessage}`, hasWait };
}
