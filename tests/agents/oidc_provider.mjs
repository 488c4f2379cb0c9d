// A real OpenID Connect provider (npm's oidc-provider) on a port of this machine, for journeys of signing in.
//
//   node oidc_provider.mjs PACKAGE PORT FILE
//
// FILE is read again for each sign-in: {"redirect_uri", "sign_out_uri", "people": {NAME: {"groups": [...]}}}. The provider's
// development pages take any password. `ready` is printed when it listens; each line on stdin makes it take a new signing
// key and withdraw the old one, and prints the new key's name.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, port, file] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`);
const { default: Provider } = await import(pathToFileURL(found.resolve("oidc-provider")));
const { exportJWK, generateKeyPair } = await import(pathToFileURL(found.resolve("jose")));
const settings = () => JSON.parse(readFileSync(file, "utf8"));

async function provider(kid) {
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const { redirect_uri, sign_out_uri } = settings();
  return new Provider(`http://127.0.0.1:${port}`, {
    clients: [{
      client_id: "permission-ledger",
      client_secret: "a-secret-of-the-test",
      redirect_uris: [redirect_uri],
      post_logout_redirect_uris: [sign_out_uri],
    }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid, use: "sig", alg: "RS256" }] },
    cookies: { keys: ["a-key-of-the-test"] },
    pkce: { required: () => true },
    scopes: ["openid", "email", "profile"],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    findAccount: (_, name) => ({
      accountId: name,
      claims: () => ({ sub: name, email: `${name}@example.com`, email_verified: true, groups: settings().people[name]?.groups ?? [] }),
    }),
  });
}

let count = 1;
let handle = (await provider(`key-${count}`)).callback();
createServer((request, answer) => handle(request, answer)).listen(Number(port), "127.0.0.1", () => console.log("ready"));
createInterface({ input: process.stdin }).on("line", async () => {
  count += 1;
  handle = (await provider(`key-${count}`)).callback();
  console.log(`key-${count}`);
});
