import type { X509Certificate } from "node:crypto";
import { Agent } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { SecureContextOptions } from "node:tls";
import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { parseCertificates, readPemFile, readRootFile } from "../../program/files/pem-file.ts";
import type { CaAddress, CaConnection, ConnectionFiles } from "../configuration/ca-settings.ts";

/** The largest answer that the agent reads. Twenty roots and a long chain are far below it. */
const maximumAnswerBytes = 1 << 20;
const maximumConnections = 8;

/**
 * The connection to the CA. It opens anew when its files have changed, and after {@link CaChannel.reset}.
 * A failed call resets it, so that the next call does not meet a half-open connection.
 */
export class CaChannel {
  readonly #connection: CaConnection;
  readonly #clock: () => Date;
  readonly #roots: ServerRoots;
  #current: { readonly key: string; readonly transport: Transport; close(): void } | undefined;

  constructor(connection: CaConnection, clock: () => Date, roots: ServerRoots) {
    this.#connection = connection;
    this.#clock = clock;
    this.#roots = roots;
  }

  /** @throws OperatorError when the roots for the connection cannot be read. */
  async transport(): Promise<Transport> {
    const tls = await this.tlsOptions();
    const key = JSON.stringify(tls);
    if (this.#current?.key !== key) {
      this.#current?.close();
      this.#current = { key, ...openTransport(this.#connection.address, tls) };
    }
    return this.#current.transport;
  }

  /** Reads the TLS options for the CA from their files. They are empty for plaintext. */
  async tlsOptions(): Promise<ConnectionTls> {
    const { address, files } = this.#connection;
    if (address.baseUrl.startsWith("http:")) return {};
    return readConnectionTls(files, this.#clock(), this.#roots);
  }

  reset(): void {
    this.#current?.close();
    this.#current = undefined;
  }
}

function openTransport(
  { protocol, baseUrl }: CaAddress,
  tls: ConnectionTls,
): { transport: Transport; close(): void } {
  const limits = { baseUrl, readMaxBytes: maximumAnswerBytes };
  if (protocol === "grpc") {
    const transport = createGrpcTransport({
      ...limits,
      nodeOptions: tls,
      pingIntervalMs: 30_000,
      pingTimeoutMs: 10_000,
      idleConnectionTimeoutMs: 60_000,
    });
    // The transport closes itself when it has no open stream.
    return { transport, close: () => undefined };
  }
  const settings = { keepAlive: true, maxSockets: maximumConnections, timeout: 60_000 };
  const isPlaintext = baseUrl.startsWith("http:");
  const agent = isPlaintext ? new Agent(settings) : new TlsAgent({ ...settings, ...tls });
  const options = { ...limits, httpVersion: "1.1" as const, nodeOptions: { agent } };
  const transport =
    protocol === "connect" ? createConnectTransport(options) : createGrpcWebTransport(options);
  return { transport, close: () => agent.destroy() };
}

type ConnectionTls = SecureContextOptions & { readonly servername?: string };

/** The roots for a connection whose file has these. */
export type ServerRoots = (file: readonly X509Certificate[]) => readonly X509Certificate[];

/** @throws OperatorError when the roots cannot be read. */
export async function readConnectionTls(
  { rootFile, clientCertificate, serverName }: ConnectionFiles,
  now: Date,
  roots: ServerRoots,
): Promise<ConnectionTls> {
  const pem = await readRootFile(rootFile);
  const ca = pem === undefined ? undefined : roots(parseCertificates(pem)).join("");
  return {
    ...(ca !== undefined && { ca }),
    ...(serverName !== undefined && { servername: serverName }),
    ...(clientCertificate && (await readClientCertificate(clientCertificate, now))),
  };
}

async function readClientCertificate(
  files: { readonly key: string; readonly chain: string },
  now: Date,
): Promise<{ key: string; cert: string } | undefined> {
  const [key, cert] = await Promise.all([
    readPemFile(files.key).catch(() => undefined),
    readPemFile(files.chain).catch(() => undefined),
  ]);
  const leaf = parseCertificates(cert ?? "")[0];
  const isCurrent = leaf !== undefined && now < leaf.validToDate;
  return key !== undefined && cert !== undefined && isCurrent ? { key, cert } : undefined;
}
