import { methods } from "./methods.ts";

/** Where strangers and honest callers meet a program. */
export interface Scene {
  readonly name: string;
  /** The port that strangers flood, and the address that they come from where the method has none. */
  readonly flooded: "serve" | "gateway" | "monitoring";
  readonly strangersAddress: string;
  /** The port that honest callers call. The memory is that of the flooded program. */
  readonly called: "serve" | "gateway";
}

/** The address of honest callers. A gateway calls the CA from the usual address of the loopback interface. */
export const callersAddress = "127.0.0.2";
const usualAddress = "127.0.0.1";

const scene = (
  name: string,
  flooded: Scene["flooded"],
  { strangersAddress = usualAddress, called = "serve" as Scene["called"] } = {},
): Scene => ({ name, flooded, strangersAddress, called });

const serve = scene("serve", "serve");
const gateway = scene("gateway", "gateway", { called: "gateway" });
/** Strangers have the address of the honest caller. */
const address = scene("address", "serve", { strangersAddress: callersAddress });
/** Strangers have the address of the gateway, behind which the honest caller is. */
const door = scene("door", "serve", { called: "gateway" });
const monitoring = scene("monitoring", "monitoring");

const usual = [serve, gateway];

/** Where a method is played, if not at both programs. */
const scenesOf: Readonly<Record<string, readonly Scene[]>> = {
  "CRLs with a window of 0": [serve, gateway, monitoring],
  "tiles with a window of 0": [serve],
  "metrics with a window of 0": [monitoring],
  "pages with a window of 0": [monitoring],
  "forged tokens": [serve, gateway, door],
  "tokens of a silent issuer": [address, gateway],
  "a hostile API server": [serve],
  "2,000 streams of four networks": [serve, gateway, door],
};

/** A flood, and where it is played. */
export interface Row {
  readonly method: string;
  readonly scene: Scene;
}

/** All rows. A server without a flood shows what the machine itself does to the caller. */
export const rows: readonly Row[] = ["none", ...methods.keys()].flatMap((method) =>
  (scenesOf[method] ?? usual).map((scene) => ({ method, scene })),
);
