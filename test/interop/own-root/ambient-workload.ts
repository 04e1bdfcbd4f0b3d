import type { KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { PeerCertificate, TLSSocket } from "node:tls";
import type { DevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { istiodName } from "../revocation/serving-ca.ts";

/** The CA that the workloads of a cluster find at its address. */
export interface ClusterCa {
  readonly port: () => number;
  /** The file of ConfigMap `istio-ca-root-cert`. */
  readonly rootFile: string;
  readonly token: (account: string) => Promise<string>;
}

/** Mints the tokens of a cluster for `namespace/name`. */
export const tokensOf =
  (cluster: DevelopmentCluster): ClusterCa["token"] =>
  (account) => {
    const [namespace = "", serviceAccount = ""] = account.split("/");
    const claims = { namespace, serviceAccount, audiences: ["istio-ca"] };
    return cluster.mintToken({ ...claims, expirationSeconds: 3600 });
  };

/** A certificate with what ztunnel reads beside it. */
interface WorkloadCertificate {
  readonly key: string;
  /** Leaf and intermediates, which peers get. */
  readonly cert: string;
  /** Each root alone. */
  readonly ca: readonly string[];
}

const blocks = (pem: string): string[] =>
  pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];

/**
 * Reads the elements of an answer as ztunnel does (istio/ztunnel 62d82653, `tls/certificate.rs`
 * `WorkloadCertificate::new`): one certificate of each, and every certificate of the last one as a root. Nothing else
 * gives it a root.
 */
function parseElements(
  [leaf = "", ...others]: readonly string[],
  key: KeyObject,
): WorkloadCertificate {
  const last = others.pop();
  if (last === undefined) throw new Error("no root certificate present");
  const chain = [leaf, ...others].map((element) => {
    const [first] = blocks(element);
    if (first === undefined) throw new Error("no certificate");
    return first;
  });
  const pem = key.export({ type: "pkcs8", format: "pem" }).toString();
  return { key: pem, cert: chain.join(""), ca: blocks(last) };
}

const spiffeIdOf = (account: string, trustDomain = "cluster.local"): string => {
  const [namespace, name] = account.split("/");
  return `spiffe://${trustDomain}/ns/${namespace}/sa/${name}`;
};

const namesOf = ({ subjectaltname = "" }: Partial<PeerCertificate>): string[] =>
  subjectaltname.split(", ").map((name) => name.replace("URI:", ""));

/**
 * A workload whose node proxy is played by Node with ztunnel's rules: TLS 1.3, a client of its own trust domain, a server
 * with the SPIFFE ID that is expected.
 */
export class AmbientWorkload {
  readonly account: string;
  readonly #server: Server;
  #held: WorkloadCertificate;

  private constructor(account: string, held: WorkloadCertificate) {
    this.account = account;
    this.#held = held;
    const options = { requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3" as const };
    this.#server = createServer({ ...asOptions(held), ...options }, (_request, response) => {
      response.end("served\n");
    });
    this.#server.on("secureConnection", (socket: TLSSocket) => {
      // `TrustDomainVerifier` in ztunnel's tls/workload.rs.
      const isOurs = (name: string): boolean => name.startsWith("spiffe://cluster.local/");
      if (!namesOf(socket.getPeerCertificate()).some(isOurs)) socket.destroy();
    });
  }

  /** Gets a first certificate of a CA, and listens. */
  static async start(account: string, ca: ClusterCa): Promise<AmbientWorkload> {
    return AmbientWorkload.with(account, await certificateOf(account, ca));
  }

  /** Listens with a certificate that is there. */
  static async with(account: string, held: WorkloadCertificate): Promise<AmbientWorkload> {
    const workload = new AmbientWorkload(account, held);
    await new Promise<void>((resolve) => workload.#server.listen(0, "127.0.0.1", resolve));
    return workload;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many roots it accepts. */
  get roots(): number {
    return this.#held.ca.length;
  }

  /** Its certificate is another from the next handshake on. */
  async renew(ca: ClusterCa): Promise<void> {
    this.#held = await certificateOf(this.account, ca);
    this.#server.setSecureContext(asOptions(this.#held));
  }

  /** One request in a handshake of its own. @returns The status, or why there is none. */
  call(port: number, expected: string): Promise<string> {
    const checkServerIdentity = (_host: string, certificate: PeerCertificate): Error | undefined =>
      namesOf(certificate).includes(spiffeIdOf(expected))
        ? undefined
        : new Error("peer did not present the expected SAN");
    const options = {
      ...asOptions(this.#held),
      checkServerIdentity,
      minVersion: "TLSv1.3" as const,
    };
    return new Promise((resolve) => {
      const place = { host: "127.0.0.1", port, agent: false as const, timeout: 30_000 };
      const call = request({ ...options, ...place }, (response) => {
        response.resume();
        response.on("end", () => resolve(String(response.statusCode)));
      });
      call.on("timeout", () => call.destroy(new Error("no answer")));
      call.on("error", (error) => resolve(error.message));
      call.end();
    });
  }

  callTo = ({ port, account }: AmbientWorkload): Promise<string> => this.call(port, account);

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

const asOptions = ({ key, cert, ca }: WorkloadCertificate) => ({ key, cert, ca: [...ca] });

async function certificateOf(account: string, ca: ClusterCa): Promise<WorkloadCertificate> {
  const { csrPem, privateKey } = await createWorkloadKey(spiffeIdOf(account));
  const roots = await readFile(ca.rootFile, "utf8");
  const client = nativeClient(ca.port(), istiodName, { roots });
  const authorization = `Bearer ${await ca.token(account)}`;
  const call = { csr: csrPem, validityDuration: 3600n };
  const answer = await client.createCertificate(call, { authorization });
  client.close();
  if (!("certChain" in answer)) throw new Error(`the CA answers ${JSON.stringify(answer)}`);
  return parseElements(answer.certChain, privateKey);
}
