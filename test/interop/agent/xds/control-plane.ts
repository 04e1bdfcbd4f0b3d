import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";

/** A line of the control plane: `events.go` explains the members. */
interface PlaneEvent {
  readonly event: "listening" | "opened" | "closed" | "request" | "response" | "received";
  readonly stream?: number;
  readonly type?: string;
  readonly nonce?: string;
  readonly hasNode?: boolean;
  readonly code?: number;
  readonly message?: string;
  readonly hasToken?: boolean;
  readonly octets?: number;
  readonly sha256?: string;
}

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/** The next configuration of every proxy. Its listener answers requests with the version. */
interface Push {
  readonly version: string;
  /** As many clusters, of a mebibyte each. */
  readonly mebibytes?: number;
  /** Whether a cluster has a field that Envoy does not know. */
  readonly hasUnknown?: boolean;
}

/** A server of go-control-plane in the place of istiod. */
export class ControlPlane {
  readonly address: string;
  readonly rootFile: string;
  readonly #commands: string;
  readonly #child: Child;
  readonly #events: PlaneEvent[] = [];

  private constructor(program: string, folder: string, ports: readonly number[], listener: string) {
    const [xds = 0, commands = 0] = ports;
    this.address = `localhost:${xds}`;
    this.rootFile = join(folder, "plane-root.pem");
    this.#commands = `127.0.0.1:${commands}`;
    const values = [
      ...["-listen", `127.0.0.1:${xds}`, "-commands", this.#commands],
      ...["-root-file", this.rootFile, "-listener", listener],
    ];
    this.#child = startChild(program, values, { logFile: join(folder, "plane.log") });
    this.#child.onLine((line) => this.#events.push(JSON.parse(line)));
  }

  /** @param listener Where Envoy is to listen. */
  static async start(program: string, folder: string, listener: string): Promise<ControlPlane> {
    const plane = new ControlPlane(program, folder, await freePorts(2), listener);
    await plane.next("the control plane", 0, ({ event }) => event === "listening");
    return plane;
  }

  /** Everything so far. Its length is a place from which `next` can look on. */
  get events(): readonly PlaneEvent[] {
    return this.#events;
  }

  /** The first event behind a place that fits. */
  async next(
    what: string,
    from: number,
    fits: (event: PlaneEvent) => boolean,
  ): Promise<PlaneEvent> {
    let found: PlaneEvent | undefined;
    await until(what, () => {
      found = this.#events.slice(from).find(fits);
      return found !== undefined;
    });
    if (!found) throw new Error(`${what}: nothing`);
    return found;
  }

  /** Sets the configuration of every proxy. */
  async configure({ version, mebibytes = 0, hasUnknown = false }: Push): Promise<void> {
    const unknown = hasUnknown ? "&unknown" : "";
    await this.#command(`push?version=${version}&mebibytes=${mebibytes}${unknown}`);
  }

  /** Sets it, and waits for the response with the clusters, which has begun to leave then. */
  async push(push: Push): Promise<PlaneEvent> {
    const from = this.#events.length;
    await this.configure(push);
    return await this.next(
      `the response of ${push.version}`,
      from,
      ({ event, type }) => event === "response" && type === clusterType,
    );
  }

  /** Waits until Envoy has taken a response, or says why it has not. */
  async taken({ type, nonce }: PlaneEvent): Promise<void> {
    const answer = await this.next(
      `the ACK of ${type}`,
      0,
      (each) => each.event === "request" && each.type === type && each.nonce === nonce,
    );
    if (answer.code) throw new Error(`rejected: ${answer.message}`);
  }

  async end(): Promise<void> {
    await this.#child.end();
  }

  async #command(path: string): Promise<void> {
    const { ok, status } = await fetch(`http://${this.#commands}/${path}`, { method: "POST" });
    if (!ok) throw new Error(`the control plane answers ${path} with ${status}`);
  }
}
