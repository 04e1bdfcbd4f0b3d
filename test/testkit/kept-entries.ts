import { type Runtime, Session } from "node:inspector";

/** What a program shares with everybody who imports a module is nothing that one owner keeps. */
const sharedScope = /^(?:Global|Module|Script)/;
const lists: readonly string[] = ["map", "set", "array"];
const deepest = 5;

/** What is in a list counts too if the list is short. */
const fewEntries = 8;
const isEntry = ({ name }: Property): boolean => /^\d+$/.test(name);

type Property = Pick<Runtime.PropertyDescriptor, "name" | "value">;
type Properties = Runtime.GetPropertiesReturnType & { readonly privateProperties?: Property[] };
type Read = (of: Runtime.RemoteObject | undefined) => Properties;

const slot = Symbol.for("rampart.kept");

/**
 * Counts the entries of all maps, sets and lists that an object keeps in its fields, private ones too, or a function in
 * its closure. It follows the objects in these fields, and no weak collection.
 */
export function keptEntries(owner: object): number {
  const session = new Session();
  session.connect();
  Object.assign(globalThis, { [slot]: owner });
  const post = (method: string, parameters: object): unknown => {
    let answer: unknown;
    // A session with its own thread answers before `post` returns.
    session.post(method, parameters, (_error: Error | null, given?: object) => {
      answer = given;
    });
    return answer;
  };
  const read: Read = (of) =>
    of?.objectId === undefined
      ? { result: [] }
      : (post("Runtime.getProperties", {
          objectId: of.objectId,
          ownProperties: true,
        }) as Properties);
  try {
    const expression = `globalThis[Symbol.for("${slot.description}")]`;
    const { result } = post("Runtime.evaluate", { expression }) as Runtime.EvaluateReturnType;
    return countIn(result, read, deepest);
  } finally {
    Reflect.deleteProperty(globalThis, slot);
    session.disconnect();
  }
}

function countIn(object: Runtime.RemoteObject | undefined, read: Read, depth: number): number {
  if (!object || depth === 0) return 0;
  const { subtype = "", type, description = "" } = object;
  const { result, internalProperties = [], privateProperties = [] } = read(object);
  const countOf = (properties: readonly Property[]): number =>
    properties
      .filter(({ name, value }) => name !== "__proto__" && value?.type === "object")
      .reduce((sum, { value }) => sum + countIn(value, read, depth - 1), 0);
  if (lists.includes(subtype)) {
    const size = Number(/\((\d+)\)/.exec(description)?.[1] ?? 0);
    const entries = internalProperties.find(({ name }) => name === "[[Entries]]");
    return size + (size > fewEntries ? 0 : countOf(read(entries?.value).result.filter(isEntry)));
  }
  if (type === "function") {
    const scopes = internalProperties.find(({ name }) => name === "[[Scopes]]");
    const own = read(scopes?.value).result.filter(
      ({ value }) => value && !sharedScope.test(value.description ?? ""),
    );
    return own.reduce((sum, { value }) => sum + countOf(read(value).result), 0);
  }
  return subtype === "" || subtype === "internal#entry"
    ? countOf([...result, ...privateProperties])
    : 0;
}
