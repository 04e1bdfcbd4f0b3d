import { createPrivateKey, type X509Certificate } from "node:crypto";
import { Agent } from "node:http";
import type { Socket } from "node:net";
import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { PemFile, parseCertificates } from "../../program/files/pem-file.ts";
import { type ClientTls, connectSession, judgedBy, TlsAgent } from "../../program/http/tunnel.ts";
import { SystemRoots } from "../../program/system-roots.ts";
import { Handshake } from "../../program/tls-policy.ts";
import type { CaAddress, CaConnection, ConnectionFiles } from "../configuration/ca-settings.ts";

/** The longest response that the agent reads. Twenty roots and a long chain are far shorter. */
const maximumAnswerBytes = 1 << 20;
const maximumConnections = 8;

/** The connection to the CA. It is replaced when its files have changed and after {@link CaChannel.reset}. */
export class CaChannel {
  readonly #connection: CaConnection;
  readonly #clock: () => Date;
  readonly #known: ConnectionTrust;
  #current: (OpenTransport & { readonly key: string }) | undefined;

  constructor(connection: CaConnection, clock: () => Date, known: ConnectionTrust) {
    this.#connection = connection;
    this.#clock = clock;
    this.#known = known;
  }

  /** The transport, a new one if the files have changed. @throws OperatorError when the roots cannot be read. */
  async transport(): Promise<Transport> {
    const tls = await this.tlsOptions();
    const key = JSON.stringify(tls);
    if (this.#current?.key !== key) {
      this.#current?.close();
      this.#current = { key, ...openTransport(this.#connection.address, tls) };
    }
    return this.#current.transport;
  }

  /**
   * Reads the TLS options for the CA from their files: none for plaintext.
   * @throws OperatorError if the roots cannot be read.
   */
  async tlsOptions(): Promise<ClientTls> {
    const { address, files } = this.#connection;
    if (address.baseUrl.startsWith("http:")) return {};
    return readConnectionTls(files, this.#clock(), this.#known);
  }

  /** Whether the latest connection waits for the CA to finish the handshake of TLS. */
  isInHandshake(): boolean {
    return this.#current?.isInHandshake() ?? false;
  }

  /** Drops the connection, so that the next call opens another. Calls on it end, except those of native gRPC. */
  reset(): void {
    this.#current?.close();
    this.#current = undefined;
  }
}

interface OpenTransport {
  readonly transport: Transport;
  readonly isInHandshake: () => boolean;
  readonly close: () => void;
}

function openTransport({ protocol, baseUrl }: CaAddress, tls: ClientTls): OpenTransport {
  const limits = { baseUrl, readMaxBytes: maximumAnswerBytes };
  if (protocol === "grpc") {
    const sessionManager = new Sessions(baseUrl, tls);
    const transport = createGrpcTransport({ ...limits, sessionManager });
    const isInHandshake = () => sessionManager.isInHandshake();
    // The transport closes itself when it has no open stream.
    return { transport, isInHandshake, close: () => undefined };
  }
  const settings = { keepAlive: true, maxSockets: maximumConnections, timeout: 60_000 };
  const isPlaintext = baseUrl.startsWith("http:");
  const agent = isPlaintext ? new Agent(settings) : new TlsAgent({ ...settings, ...tls });
  const options = { ...limits, httpVersion: "1.1" as const, nodeOptions: { agent } };
  const transport =
    protocol === "connect" ? createConnectTransport(options) : createGrpcWebTransport(options);
  const isInHandshake = () => agent instanceof TlsAgent && agent.isInHandshake();
  return { transport, isInHandshake, close: () => agent.destroy() };
}

const sessionTimes = {
  pingIntervalMs: 30_000,
  pingTimeoutMs: 10_000,
  idleConnectionTimeoutMs: 60_000,
};

/** The HTTP/2 sessions of native gRPC, each on a connection that is opened before the session. */
class Sessions extends Http2SessionManager {
  readonly #open: () => Promise<Socket>;
  readonly #opened: { next?: Socket };
  readonly #opening = new SingleFlight<void>();
  isInHandshake = (): boolean => false;

  constructor(baseUrl: string, tls: ClientTls) {
    const opened: { next?: Socket } = {};
    const createConnection = (): Socket => {
      const { next } = opened;
      delete opened.next;
      if (next) return next;
      throw unconnected;
    };
    super(baseUrl, sessionTimes, { ...tls, createConnection });
    this.#open = () => connectSession(baseUrl, tls);
    this.#opened = opened;
  }

  override async request(
    ...call: Parameters<Http2SessionManager["request"]>
  ): ReturnType<Http2SessionManager["request"]> {
    try {
      return await super.request(...call);
    } catch (error) {
      if (error !== unconnected) throw error;
    }
    await this.#opening.join(() => this.#connect());
    return super.request(...call);
  }

  async #connect(): Promise<void> {
    const next = await this.#open();
    this.isInHandshake = Handshake.watch(next);
    this.#opened.next = next;
  }
}

const unconnected = new Error("a new session has no connection yet");

/** Decides which certificates a connection trusts and shows, by what the agent has learned of roots and revocations. */
export interface ConnectionTrust {
  /** The roots to trust for a connection, given those in its file. */
  readonly rootsFor: (file: readonly X509Certificate[]) => readonly X509Certificate[];
  /** Whether a client certificate was revoked or its root was withdrawn. `others` follow it in its file. */
  readonly isWithdrawn: (leaf: X509Certificate, others: readonly X509Certificate[]) => boolean;
}

/**
 * Reads the roots and the client certificate for connections to the CA. Without a file of roots it trusts the
 * system's, for the whole process. A client certificate that cannot be read, is not valid now, was withdrawn or does
 * not fit its key is left out.
 * @throws OperatorError if the roots cannot be read.
 */
export async function readConnectionTls(
  { rootFile, clientCertificate, serverName }: ConnectionFiles,
  now: Date,
  known: ConnectionTrust,
): Promise<ClientTls> {
  const pem = await PemFile.readRoots(rootFile);
  if (pem === undefined) SystemRoots.trust();
  const ca = pem === undefined ? undefined : known.rootsFor(parseCertificates(pem)).join("");
  return {
    ...(ca !== undefined && { ca }),
    ...(serverName !== undefined && judgedBy(serverName)),
    ...(clientCertificate && (await readClientCertificate(clientCertificate, now, known))),
  };
}

/**
 * Reads a client certificate and its key.
 * @returns `undefined` for a certificate that has expired or was withdrawn: many servers end the connection for such
 *   a certificate, although the token alone would suffice.
 */
async function readClientCertificate(
  files: { readonly key: string; readonly chain: string },
  now: Date,
  known: ConnectionTrust,
): Promise<{ key: string; cert: string } | undefined> {
  const [key, cert] = await Promise.all([
    PemFile.read(files.key).catch(() => undefined),
    PemFile.read(files.chain).catch(() => undefined),
  ]);
  const [leaf, ...others] = parseCertificates(cert ?? "");
  if (key === undefined || cert === undefined || leaf === undefined) return undefined;
  const isCurrent = leaf.validFromDate <= now && now < leaf.validToDate;
  const isUsable = isCurrent && isKeyOf(leaf, key) && !known.isWithdrawn(leaf, others);
  return isUsable ? { key, cert } : undefined;
}

/** Between two writes of its files, a folder has the key of another certificate. */
function isKeyOf(leaf: X509Certificate, pem: string): boolean {
  try {
    return leaf.checkPrivateKey(createPrivateKey(pem));
  } catch {
    return false;
  }
}
