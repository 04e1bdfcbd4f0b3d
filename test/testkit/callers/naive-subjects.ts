/** What an operator writes, unread. */
type Written = Readonly<Record<string, unknown>>;

const membersOf = (value: unknown): readonly (readonly [string, unknown])[] =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [];

const memberOf = (value: unknown, name: string): unknown =>
  membersOf(value).find(([each]) => each === name)?.[1];

/** The texts of a claim; none of what is neither text, boolean nor a whole number that doubles keep. */
function textsOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.length > 64 ? [] : value.flatMap(single);
  return single(value);
}

function single(value: unknown): readonly string[] {
  if (value === true) return ["true"];
  if (value === false) return ["false"];
  if (typeof value === "string") return value.length > 1024 ? [] : [value];
  if (typeof value !== "number" || Math.floor(value) !== value) return [];
  return Math.abs(value) < 2 ** 53 ? [BigInt(value).toString()] : [];
}

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/** Letter by letter, from the left. */
function matches(glob: string, text: string): boolean {
  if (glob === "") return text === "";
  if (!glob.startsWith("*")) return text[0] === glob[0] && matches(glob.slice(1), text.slice(1));
  if (text === "" || !nameLetters.includes(text[0] ?? " ")) return false;
  return matches(glob.slice(1), text.slice(1)) || matches(glob, text.slice(1));
}

function fits(wanted: unknown, found: unknown): boolean {
  if (membersOf(wanted).length > 0) {
    return membersOf(wanted).every(([name, each]) => fits(each, memberOf(found, name)));
  }
  const globs = Array.isArray(wanted) ? wanted : [wanted];
  return textsOf(found).some((text) => globs.some((glob) => matches(String(glob), text)));
}

/** The claim of a path such as `a."b.c"` or `a.'b.c'`. */
function claimOf(claims: unknown, path: string): unknown {
  if (path === "") return claims;
  const quoted = /^["']([^"']*)["']\.?/.exec(path);
  const plain = /^([^.]*)\.?/.exec(path);
  const [whole = path, name = path] = quoted ?? plain ?? [];
  return claimOf(memberOf(claims, name), path.slice(whole.length));
}

const isLabel = (text: string): boolean =>
  text.length > 0 &&
  text.length < 64 &&
  [...text].every((letter) => "abcdefghijklmnopqrstuvwxyz0123456789-".includes(letter)) &&
  !text.startsWith("-") &&
  !text.endsWith("-");

/** The name that a template makes; `undefined` where a claim is missing; `null` where one is no label. */
function filled(template: string, claims: unknown): string | undefined | null {
  let result: string | undefined | null = "";
  for (const piece of template.match(/\{[^}]*\}|[^{]+/g) ?? []) {
    if (!piece.startsWith("{")) {
      if (typeof result === "string") result += piece;
      continue;
    }
    const value = claimOf(claims, piece.slice(1, -1));
    const [text] = textsOf(value);
    if (text === undefined) return undefined;
    if (Array.isArray(value) || !isLabel(text)) result = null;
    else if (typeof result === "string") result += text;
  }
  return result;
}

/**
 * The account that somebody gives a token who reads a table of claims from top to bottom, `namespace/name`; `undefined` for
 * none. It shares nothing with the code of the CA.
 */
export function naively(table: Written, claims: Written, now: number): string | undefined {
  const { aud, exp, iat = 0, nbf = 0, sub } = claims;
  const [audience, ...others] = Array.isArray(aud) ? aud : [aud];
  const accepted = table["audiences"] as readonly unknown[];
  if (others.length > 0 || !accepted.includes(audience)) return undefined;
  if (typeof exp !== "number" || typeof iat !== "number" || typeof nbf !== "number")
    return undefined;
  if (!(exp > now) || iat > now + 60 || nbf > now + 60 || typeof sub !== "string") return undefined;
  for (const entry of table["subjects"] as readonly Written[]) {
    const names = [entry["namespace"], entry["account"]].map((each) =>
      filled(String(each), claims),
    );
    if (!fits(entry["claims"], claims) || names.includes(undefined)) continue;
    const [namespace, account] = names;
    if (typeof namespace !== "string" || typeof account !== "string") return undefined;
    const hours = /^(\d+)h$/.exec(String(entry["maximum_age"]))?.[1];
    if (hours !== undefined && now - iat > Number(hours) * 3600) return undefined;
    const namespaces = (table["namespaces"] ?? ["*"]) as readonly string[];
    const isOwn = namespaces.some((glob) =>
      new RegExp(`^${glob.replaceAll("*", "[a-z0-9-]*")}$`).test(namespace),
    );
    const isName =
      account.length < 254 &&
      account.split(".").every((part) => part !== "" && !/^-|-$/.test(part));
    return isOwn && isLabel(namespace) && isName ? `${namespace}/${account}` : undefined;
  }
  return undefined;
}
