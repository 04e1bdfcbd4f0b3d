import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** The reading of a certificate or a CSR by Go's crypto/x509. */
export interface GoFacts {
  /** Why it does not accept it; absent if it does. */
  readonly error?: string;
  /** Hexadecimal, like the serial number. */
  readonly spki?: string;
  readonly serial?: string;
  /** Seconds since 1970. */
  readonly notBefore?: number;
  readonly notAfter?: number;
  readonly uris?: readonly string[];
  /** Why it does not accept the whole of a CSR whose key and signature are good. */
  readonly strict?: string;
}

/** A question to the program in ./oracle: its kind, and the octets that the kind takes. */
export interface Question {
  readonly kind: "certificate" | "request" | "verdict";
  readonly octets: Uint8Array;
}

/** The program in ./oracle while it runs. */
export interface Oracle {
  /** Answers questions in their order. */
  readonly ask: (questions: readonly Question[]) => Promise<readonly GoFacts[]>;
  readonly end: () => Promise<void>;
}

const letters = { certificate: "c", request: "r", verdict: "v" } as const;

/** A question on the wire: its letter, its length, its octets. */
function frame({ kind, octets }: Question): Buffer {
  const head = Buffer.alloc(5, letters[kind]);
  head.writeUInt32BE(octets.length, 1);
  return Buffer.concat([head, octets]);
}

export function startOracle(program: string): Oracle {
  const child = spawn(program, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  async function answer(): Promise<GoFacts> {
    const { value, done } = await lines.next();
    if (done) throw new Error("the oracle ended");
    return JSON.parse(value) as GoFacts;
  }
  return {
    ask: async (questions) => {
      child.stdin.write(Buffer.concat(questions.map(frame)));
      const facts: GoFacts[] = [];
      for (const _ of questions) facts.push(await answer());
      return facts;
    },
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

/** A verdict on a client's leaf under one root at an instant. */
export function verdictQuestion(root: Uint8Array, leaf: Uint8Array, at: Date): Question {
  const head = Buffer.alloc(12);
  head.writeBigUInt64BE(BigInt(at.getTime()) / 1000n);
  head.writeUInt32BE(root.length, 8);
  return { kind: "verdict", octets: Buffer.concat([head, root, leaf]) };
}
