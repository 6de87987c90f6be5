"""Secrets of many kinds, made by a generator, and ordinary lines in which nothing may be masked.

No secret is real: each is drawn from a seed and put together at run time, so that no scanner of repositories takes this
file for a leak.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

ROOT = Path(__file__).resolve().parents[2]
HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
ALNUM = string.ascii_letters + string.digits
URL64 = ALNUM + "-_"
B64 = ALNUM + "+/"


class Example(NamedTuple):
    """A line with a secret in it."""

    kind: str
    line: str
    secret: str


class Maker:
    """Draws secrets of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def run(self, alphabet: str, length: int) -> str:
        """A run of characters that has a digit and a letter, as one of this length nearly always has."""
        drawn = [self.random.choice(alphabet) for _ in range(length)]
        if length >= 6 and "7" in alphabet and not alphabet.isdigit():
            drawn[length // 2], drawn[length // 2 - 1] = "7", next(c for c in alphabet if c.isalpha())
        return "".join(drawn)

    def uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def password(self) -> str:
        words = ("tiger", "Maple", "orbit", "Quartz", "velvet", "Copper")
        return f"{self.random.choice(words)}{self.random.randrange(10, 9999)}{self.random.choice('!#$%&*')}"

    def card(self) -> str:
        digits = [4, *(self.random.randrange(10) for _ in range(14))]
        total = sum(d if i % 2 else d * 2 - 9 * (d > 4) for i, d in enumerate(digits))
        return "".join(map(str, [*digits, -total % 10]))

    def iban(self) -> str:
        account = "".join(str(self.random.randrange(10)) for _ in range(18))
        check = 98 - int(f"{account}131400") % 97
        return f"DE{check:02d}{account}"


def _pem(name: str) -> Callable[[Maker], str]:
    def made(m: Maker) -> str:
        body = "\n".join(m.run(B64, 64) for _ in range(4))
        return f"{'-' * 5}BEGIN {name}{'-' * 5}\n{body}\n{'-' * 5}END {name}{'-' * 5}"

    return made


def _jwt(m: Maker) -> str:
    return f"{'ey' + 'J'}{m.run(URL64, 30)}.{'ey' + 'J'}{m.run(URL64, 50)}.{m.run(URL64, 43)}"


Secret = Callable[[Maker], str]
KINDS: dict[str, tuple[Secret, tuple[str, ...]]] = {
    "aws access key id": (lambda m: "AK" + "IA" + m.run(UPPER, 16), ("aws_access_key_id = {}", "key {} was rotated", '"AccessKeyId": "{}"')),
    "aws secret access key": (lambda m: m.run(B64, 40), ("aws_secret_access_key = {}", "AWS_SECRET_ACCESS_KEY={}", '"SecretAccessKey": "{}"')),
    "aws session token": (lambda m: "FwoG" + m.run(B64, 300), ("aws_session_token = {}", "export AWS_SESSION_TOKEN={}", '"SessionToken": "{}"')),
    "gcp api key": (lambda m: "AI" + "za" + m.run(URL64, 35), ("GOOGLE_API_KEY={}", "https://maps.googleapis.com/maps/api/js?key={}", "use {} for Gemini")),
    "gcp oauth": (lambda m: "GOC" + "SPX-" + m.run(URL64, 28), ('"client_secret":"{}"', "secret {}", "client: {}")),
    "gcp access token": (lambda m: "ya" + "29." + m.run(URL64, 120), ("curl -H 'Authorization: Bearer {}'", "token: {}", "got {}")),
    "azure storage key": (lambda m: m.run(B64, 86) + "==", ("AccountName=logs;AccountKey={};EndpointSuffix=core.windows.net", "AZURE_STORAGE_KEY={}", '"accountKey": "{}"')),
    "azure sas": (lambda m: m.run(ALNUM, 40) + "%3D", ("https://x.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}", "?sv=2021-06-08&ss=b&sig={}&se=2026", "SharedAccessSignature=sr=x&sig={}")),
    "azure client secret": (lambda m: m.run(ALNUM, 3) + "8" + "Q~" + m.run(ALNUM, 34), ("AZURE_CLIENT_SECRET={}", "client secret {}", "the app uses {} now")),
    "azure connection string": (lambda m: m.run(B64, 43) + "=", ("Endpoint=sb://b.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}", "HostName=h;SharedAccessKey={}", "Server=tcp:x;Password={};Encrypt=yes")),
    "github": (lambda m: "gh" + m.random.choice("pousr") + "_" + m.run(ALNUM, 36), ("git clone https://{}@github.com/a/b", "token {}", "GITHUB_TOKEN={}")),
    "github fine-grained": (lambda m: "github" + "_pat_" + m.run(ALNUM, 22) + "_" + m.run(ALNUM, 59), ("GH_TOKEN={}", "use {}", "remote: {}")),
    "gitlab": (lambda m: "gl" + "pat-" + m.run(URL64, 20), ("PRIVATE-TOKEN: {}", "CI_TOKEN={}", "my {} works")),
    "gitlab runner": (lambda m: "gl" + "rt-" + m.run(URL64, 20), ("gitlab-runner register --token {}", "runner {}", "token: {}")),
    "bitbucket": (lambda m: "AT" + "BB" + m.run(ALNUM, 32), ("https://x-token-auth:{}@bitbucket.org/a/b", "app password {}", "BITBUCKET={}")),
    "atlassian": (lambda m: "ATA" + "TT3x" + m.run(URL64, 180), ("curl -u me@x.org:{}", "JIRA_API_TOKEN={}", "jira {}")),
    "slack token": (lambda m: "xo" + "xb-" + m.run("123456789", 11) + "-" + m.run(ALNUM, 24), ("SLACK={}", "bot {}", '"token": "{}"')),
    "slack webhook": (lambda m: f"T{m.run(UPPER, 8)}/B{m.run(UPPER, 8)}/{m.run(ALNUM, 24)}", ("https://hooks.slack.com/services/{}", "post to <https://hooks.slack.com/services/{}>", 'url = "https://hooks.slack.com/services/{}"')),
    "discord bot": (lambda m: "M" + m.run(ALNUM, 23) + "." + m.run(URL64, 6) + "." + m.run(URL64, 27), ("DISCORD_TOKEN={}", "client.run('{}')", "Authorization: Bot {}")),
    "discord webhook": (lambda m: m.run("123456789", 18) + "/" + m.run(URL64, 68), ("https://discord.com/api/webhooks/{}", "https://discordapp.com/api/webhooks/{}", "curl https://discord.com/api/webhooks/{} -d x")),
    "telegram": (lambda m: str(m.random.randrange(10**9, 10**10 - 1)) + ":A" + "A" + m.run(URL64, 33), ("TELEGRAM_BOT_TOKEN={}", "https://api.telegram.org/bot{}/getMe", "the bot is {}")),
    "stripe": (lambda m: "sk" + "_live_" + m.run(ALNUM, 24), ("stripe.api_key = '{}'", "STRIPE={}", "key {}")),
    "stripe webhook": (lambda m: "wh" + "sec_" + m.run(ALNUM, 32), ("STRIPE_WEBHOOK={}", "endpoint secret {}", "'{}'")),
    "twilio": (lambda m: "S" + "K" + m.run(HEX, 32), ("TWILIO_API_KEY_SID={}", "api key {}", "'{}'")),
    "twilio auth token": (lambda m: m.run(HEX, 32), ("TWILIO_AUTH_TOKEN={}", "auth_token: {}", '"authToken": "{}"')),
    "sendgrid": (lambda m: "S" + "G." + m.run(URL64, 22) + "." + m.run(URL64, 43), ("SENDGRID={}", "mail {}", "Bearer {}")),
    "mailgun": (lambda m: "ke" + "y-" + m.run(HEX, 32), ("curl -s --user 'api:{}' https://api.mailgun.net", "MAILGUN={}", "use {}")),
    "mailchimp": (lambda m: m.run(HEX, 32) + "-us" + "14", ("MAILCHIMP={}", "apikey {}", "'{}'")),
    "npm": (lambda m: "np" + "m_" + m.run(ALNUM, 36), ("//registry.npmjs.org/:_authToken={}", "NPM={}", "publish with {}")),
    "pypi": (lambda m: "py" + "pi-AgEIcHlwaS5vcmc" + m.run(URL64, 120), ("password = {}", "TWINE={}", "token {}")),
    "rubygems": (lambda m: "ruby" + "gems_" + m.run(HEX, 48), (":rubygems_api_key: {}", "GEM={}", "push with {}")),
    "docker hub": (lambda m: "dckr" + "_pat_" + m.run(URL64, 27), ("docker login -u me -p {}", "HUB={}", "use {}")),
    "docker config": (lambda m: base64.b64encode(f"me:{m.password()}".encode()).decode(), ('{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}}}}}}', '"auth": "{}"', "_auth={}")),
    "heroku": (lambda m: "HR" + "KU-" + m.uuid(), ("HEROKU={}", "key {}", "'{}'")),
    "heroku uuid": (lambda m: m.uuid(), ("HEROKU_API_KEY={}", 'heroku_api_key = "{}"', "heroku auth_token: {}")),
    "digitalocean": (lambda m: "dop" + "_v1_" + m.run(HEX, 64), ("DO={}", "doctl {}", "access {}")),
    "cloudflare": (lambda m: m.run(URL64, 40), ("CLOUDFLARE_API_TOKEN={}", "cloudflare_api_key: {}", '"X-Auth-Key": "{}"')),
    "fastly": (lambda m: m.run(URL64, 32), ("Fastly-Key: {}", "FASTLY_API_KEY={}", "fastly_api_token = '{}'")),
    "datadog": (lambda m: m.run(HEX, 32), ("DD_API_KEY={}", "DD-APPLICATION-KEY: {}", "dd_app_key: {}")),
    "new relic": (lambda m: "NR" + "AK-" + m.run(UPPER, 27), ("NEW_RELIC={}", "Api-Key: {}", "user key {}")),
    "sentry": (lambda m: "sn" + "trys_" + m.run(ALNUM, 90), ("SENTRY_AUTH={}", "auth {}", "'{}'")),
    "sentry dsn": (lambda m: m.run(HEX, 32), ("SENTRY_DSN=https://{}@o123.ingest.sentry.io/456", 'dsn: "https://{}@sentry.io/1"', "https://{}@sentry.example.org/7")),
    "grafana": (lambda m: "gl" + "sa_" + m.run(ALNUM, 32) + "_" + m.run(HEX, 8), ("GRAFANA={}", "service account {}", "Bearer {}")),
    "vault": (lambda m: "hv" + "s." + m.run(URL64, 90), ("VAULT={}", "vault login {}", "X-Vault-Token: {}")),
    "terraform": (lambda m: m.run(ALNUM, 14) + ".atlas" + "v1." + m.run(URL64, 67), ('token = "{}"', "TF={}", "terraform login {}")),
    "databricks": (lambda m: "da" + "pi" + m.run(HEX, 32), ("DATABRICKS={}", "databricks {}", "pat {}")),
    "hugging face": (lambda m: "h" + "f_" + m.run(ALNUM, 34), ("HF={}", "login {}", "'{}'")),
    "openai": (lambda m: "s" + "k-" + m.run(ALNUM, 20) + "T3BlbkFJ" + m.run(ALNUM, 20), ("OPENAI={}", "my key {}", "'{}'")),
    "openai project": (lambda m: "s" + "k-proj-" + m.run(URL64, 120), ("OPENAI={}", "my key {}", "'{}'")),
    "anthropic": (lambda m: "s" + "k-ant-api03-" + m.run(URL64, 93) + "AA", ("ANTHROPIC={}", "x-api-key: {}", "claude {}")),
    "cohere": (lambda m: m.run(ALNUM, 40), ("COHERE_API_KEY={}", "cohere api key: {}", "CO_API_KEY='{}'")),
    "groq": (lambda m: "gs" + "k_" + m.run(ALNUM, 52), ("GROQ={}", "key {}", "'{}'")),
    "replicate": (lambda m: "r" + "8_" + m.run(ALNUM, 37), ("REPLICATE={}", "replicate {}", "'{}'")),
    "perplexity": (lambda m: "pp" + "lx-" + m.run(ALNUM, 48), ("PPLX={}", "key {}", "'{}'")),
    "xai": (lambda m: "xa" + "i-" + m.run(ALNUM, 80), ("XAI={}", "grok {}", "'{}'")),
    "linear": (lambda m: "lin" + "_api_" + m.run(ALNUM, 40), ("LINEAR={}", "key {}", "'{}'")),
    "notion": (lambda m: "nt" + "n_" + m.run(ALNUM, 46), ("NOTION={}", "integration {}", "'{}'")),
    "notion old": (lambda m: "sec" + "ret_" + m.run(ALNUM, 43), ("NOTION={}", "integration {}", "'{}'")),
    "airtable": (lambda m: "pa" + "t" + m.run(ALNUM, 14) + "." + m.run(HEX, 64), ("AIRTABLE={}", "base {}", "'{}'")),
    "shopify": (lambda m: "sh" + "pat_" + m.run(HEX, 32), ("SHOPIFY={}", "admin {}", "X-Shopify-Access-Token: {}")),
    "square": (lambda m: "sq" + "0atp-" + m.run(URL64, 22), ("SQUARE={}", "token {}", "'{}'")),
    "paypal": (lambda m: "access" + "_token$production$" + m.run(LOWER, 16) + "$" + m.run(HEX, 32), ("BRAINTREE={}", "use {}", "'{}'")),
    "paypal secret": (lambda m: "E" + m.run(URL64, 79), ("PAYPAL_CLIENT_SECRET={}", 'paypal client_secret: "{}"', "PAYPAL_SECRET={}")),
    "plaid": (lambda m: "access-" + "sandbox-" + m.uuid(), ("PLAID={}", "use {}", "'{}'")),
    "supabase": (lambda m: "sb" + "p_" + m.run(HEX, 40), ("SUPABASE={}", "use {}", "'{}'")),
    "planetscale": (lambda m: "pscale" + "_pw_" + m.run(ALNUM, 43), ("PSCALE={}", "mysql://u:{}@aws.connect.psdb.cloud/db", "'{}'")),
    "doppler": (lambda m: "dp" + ".pt." + m.run(ALNUM, 43), ("DOPPLER={}", "use {}", "'{}'")),
    "1password": (lambda m: "ops" + "_eyJ" + m.run(ALNUM, 250), ("OP={}", "use {}", "'{}'")),
    "age": (lambda m: "AGE-SECRET" + "-KEY-1" + m.run(UPPER, 58), ("{}", "identity {}", "SOPS={}")),
    "rsa private key": (_pem("RSA PRIVATE KEY"), ("{}", "key:\n{}", "take this:\n{}\nthanks")),
    "ec private key": (_pem("EC PRIVATE KEY"), ("{}", "key:\n{}", "take this:\n{}\nthanks")),
    "ssh private key": (_pem("OPENSSH PRIVATE KEY"), ("{}", "key:\n{}", "take this:\n{}\nthanks")),
    "pgp private key": (_pem("PGP PRIVATE KEY BLOCK"), ("{}", "key:\n{}", "take this:\n{}\nthanks")),
    "gcp service account": (lambda m: _pem("PRIVATE KEY")(m).replace("\n", "\\n"), ('{{"type": "service_account", "private_key": "{}"}}', '"private_key": "{}"', "credentials: {}")),
    "private key without its end": (lambda m: _pem("RSA PRIVATE KEY")(m)[:200], ("{}", "key:\n{}", "cat id_rsa\n{}")),
    "private key without its beginning": (lambda m: "\n".join(_pem("RSA PRIVATE KEY")(m).split("\n")[2:]), ("{}", "…\n{}", "rest\n{}\nend")),
    "jwt": (_jwt, ("token {}", "Authorization: Bearer {}", "supabase anon {}")),
    "basic auth in a url": (Maker.password, ("https://bob:{}@intranet.example.org/x", "curl http://admin:{}@10.0.0.1/", "proxy=http://u:{}@proxy:3128")),
    "postgres": (Maker.password, ("postgres://app:{}@db:5432/x", "DATABASE_URL=postgresql://app:{}@db/x", "host=db user=app password={} dbname=x")),
    "mysql": (Maker.password, ("mysql://root:{}@localhost/x", "mysql -u root -p{} shop", "mysql+pymysql://a:{}@h/x")),
    "mongodb": (Maker.password, ("mongodb://a:{}@h:27017", "mongodb+srv://a:{}@c0.mongodb.net/x", "MONGO_PASSWORD={}")),
    "redis": (Maker.password, ("redis://:{}@cache:6379/0", "rediss://default:{}@c.example.org", "requirepass: {}")),
    "amqp": (Maker.password, ("amqp://guest:{}@mq:5672/", "amqps://u:{}@mq/vh", "RABBITMQ_DEFAULT_PASS={}")),
    "bearer header": (lambda m: m.run(ALNUM, 32), ("Authorization: Bearer {}", "-H 'authorization: bearer {}'", '"Authorization": "Bearer {}"')),
    "basic header": (lambda m: base64.b64encode(f"bob:{m.password()}".encode()).decode(), ("Authorization: Basic {}", "'Authorization': 'Basic {}'", "proxy-authorization: basic {}")),
    "api key header": (lambda m: m.run(ALNUM, 28), ("X-Api-Key: {}", "'x-api-key': '{}'", "X-Auth-Token: {}")),
    "cookie": (lambda m: "sid=" + m.run(ALNUM, 32), ("Cookie: {}; theme=dark", "Set-Cookie: {}; HttpOnly; Path=/", "-H 'Cookie: {}'")),
    "session id": (lambda m: m.run(LOWER, 26), ("PHPSESSID={}", "JSESSIONID={}; Path=/", "connect.sid={}")),
    "netrc": (Maker.password, ("machine example.org login bob password {}", "machine h\n  login bob\n  password {}", "default login anonymous password {}")),
    "kubeconfig": (lambda m: m.run(B64, 800), ("    client-key-data: {}", "    token: {}", "client-key-data: '{}'")),
    "password assignment": (Maker.password, ("password: {}", "DB_PASSWORD={}", '{{"password": "{}"}}')),
    "password in toml and code": (Maker.password, ('password = "{}"', "dbPassword: '{}'", "PASSWORD := '{}'")),
    "password flag": (Maker.password, ("tool --password {}", "tool --password='{}'", "x --db-password={}")),
    "password in prose": (Maker.password, ("my password is {}", "The wifi password is {}.", "log in as bob with password {}")),
    "password in german": (Maker.password, ("Passwort: {}", "Das Passwort ist {}", "Kennwort = {}")),
    "password in spanish and portuguese": (Maker.password, ("contraseña: {}", "la contraseña es {}", "senha: {}")),
    "password in french": (Maker.password, ("mot de passe : {}", "le mot de passe est {}", "Mot de passe: {}")),
    "password in chinese, japanese and korean": (Maker.password, ("密码：{}", "パスワードは {} です", "비밀번호: {}")),
    "password in russian and polish": (Maker.password, ("пароль: {}", "Пароль = {}", "hasło: {}")),
    "password in nested json": (Maker.password, (r'{{\"password\": \"{}\"}}', r'"body": "{{\"api_key\": \"{}\"}}"', r"log: \"secret\": \"{}\"")),
    "password in xml": (Maker.password, ("<password>{}</password>", "<db:password>{}</db:password>", "<apiKey>{}</apiKey>")),
    "otp seed": (lambda m: m.run(string.ascii_uppercase + "234567", 32), ("otpauth://totp/x?secret={}&issuer=y", "TOTP secret: {}", "2fa seed: {}")),
    "recovery phrase": (lambda m: " ".join(m.random.choice(["apple", "brave", "cliff", "drift", "eager", "flame"]) for _ in range(12)), ("seed phrase: {}", "mnemonic: {}", 'recovery phrase is "{}"')),
    "card": (Maker.card, ("card {}", "pay with {} 12/29", "number: {}")),
    "iban": (Maker.iban, ("IBAN {}", "transfer to {} please", "iban: {}")),
}  # fmt: skip


def examples(seed: int = 1, each: int = 1) -> Iterator[Example]:
    """Each kind in each of its three lines, ``each`` times."""
    maker = Maker(seed)
    for kind, (secret, lines) in KINDS.items():
        for line in lines:
            for _ in range(each):
                made = secret(maker)
                yield Example(kind, line.format(made), made)


def shows(example: Example, redacted: str) -> bool:
    """Whether more of a secret is left than its first six and last four characters."""
    rest = example.line.replace(example.secret, "")
    parts = [part for part in example.secret.replace("\\n", "\n").split("\n") if not part.startswith("-----")]
    windows = {part[i : i + 8] for part in parts for i in range(max(1, len(part) - 7))}
    return any(window in redacted and window not in rest for window in windows)


_WORDS = (
    "we they the team Ana Tom a new old our database server release cache index meeting budget plan report token key"
    " secret password tokens keys passwords login session cookie header bearer policy rotate rotates store stores stored"
    " uses used moved to in on for with from about after before is was are were not never always Berlin Lisbon Monday"
    " tomorrow yesterday because but and or so which that hash commit branch merge deploy deployed fails failed slow fast"
    " users customers invoice order orders shipped late early coffee lunch garden holiday flight train ticket doctor"
).split()


def _prose(m: Maker) -> str:
    words = [m.random.choice(_WORDS) for _ in range(m.random.randrange(6, 18))]
    return " ".join(words).capitalize() + m.random.choice([".", ".", "?", ":", "!"])


_FORMS: tuple[Callable[[Maker], str], ...] = (
    lambda m: f"commit {m.run(HEX, 40)}",
    lambda m: f"sha256:{m.run(HEX, 64)}  dist/app-{m.random.randrange(9)}.{m.random.randrange(99)}.tar.gz",
    lambda m: f"Merged {m.run(HEX, 7)} into main, see #{m.random.randrange(9999)}",
    lambda m: f"event {m.uuid()} was stored",
    lambda m: f"ref: mem_{m.run(LOWER, 12)} (line {m.random.randrange(900)})",
    lambda m: f"![shot](data:image/png;base64,iVBORw0KGgo{m.run(B64, 200)})",
    lambda m: f"/home/ana/projects/{m.run(LOWER, 8)}/src/{m.run(LOWER, 10)}/index.ts:{m.random.randrange(500)}",
    lambda m: f"https://example.org/{m.run(LOWER, 8)}/{m.run(LOWER, 24)}?page={m.random.randrange(99)}&sort=asc",
    lambda m: f"2026-0{m.random.randrange(1, 9)}-1{m.random.randrange(9)}T10:{m.random.randrange(10, 59)}:00Z INFO request {m.uuid()} took {m.random.randrange(999)} ms",
    lambda m: f"integrity sha512-{m.run(B64, 86)}==",
    lambda m: f"    const token{m.random.randrange(99)} = await tokens.next(request, {m.random.randrange(99)});",
    lambda m: f"def key_of(item{m.random.randrange(99)}): return item.key if item.secret else None",
    lambda m: f"password_field = forms.CharField(max_length={m.random.randrange(99)}, widget=PasswordInput)",
    lambda m: f"The password policy is {m.random.choice(['strict', 'weak', 'new', 'from 2019'])}: {m.random.randrange(8, 30)} characters.",
    lambda m: f"Passwords must be {m.random.randrange(8, 30)} characters; the password is checked at login.",
    lambda m: f"We count tokens: {m.random.randrange(10**6)} in, {m.random.randrange(10**5)} out, max_tokens={m.random.randrange(4096)}",
    lambda m: f"api_key = os.environ['SERVICE_{m.random.randrange(99)}']",
    lambda m: f"password = settings.database{m.random.randrange(9)}.password",
    lambda m: "password: ${DB_PASSWORD}",
    lambda m: f"sort_key: name{m.random.randrange(9)}, primary key: id, foreign key: user_id",
    lambda m: f"arXiv:2{m.random.randrange(100, 999)}.{m.random.randrange(10000, 99999)}, doi 10.1000/{m.run(LOWER, 8)}",
    lambda m: f"order {m.random.randrange(10**7, 10**9)} costs {m.random.randrange(999)}.{m.random.randrange(10, 99)} EUR, phone +49 30 {m.random.randrange(10**6, 10**7)}",
    lambda m: f"timestamp {m.random.randrange(1_700_000_000_000, 1_800_000_000_000)} id {m.random.randrange(10**17, 10**18)}",
    lambda m: f"image: registry.example.org/team/app@sha256:{m.run(HEX, 64)}",
    lambda m: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{m.run(B64, 43)} ana@laptop",
    lambda m: f"user: bob, host: db{m.random.randrange(9)}.example.org:5432, path: C:\\Users\\bob\\x{m.random.randrange(99)}",
    lambda m: f"| token | string | the key of page {m.random.randrange(99)} |",
    lambda m: f"cookie banner, session {m.random.randrange(99)} of the course, bearer of news",
    lambda m: f"npm install left-pad@{m.random.randrange(9)}.{m.random.randrange(99)}.0 --save-dev",
    lambda m: f"docker run -u {m.random.randrange(1000, 2000)}:{m.random.randrange(1000, 2000)} -p 8080:80 nginx:1.{m.random.randrange(30)}",
    lambda m: f"The secret of room {m.random.randrange(99)} is patience; the key to it hangs in hall {m.random.randrange(9)}.",
    lambda m: f"ip 192.168.{m.random.randrange(255)}.{m.random.randrange(255)}, mac 00:1b:44:11:3a:{m.run(HEX, 2)}, v{m.random.randrange(9)}.{m.random.randrange(99)}.1",
)  # fmt: skip


def ordinary(seed: int = 1, many: int = 3_000) -> list[str]:
    """Lines without a secret: made ones, and those of the sample, of the source and of its documents."""
    maker = Maker(seed)
    made = [maker.random.choice(_FORMS)(maker) if i % 2 else _prose(maker) for i in range(many)]
    return made + [
        line for path in _sources() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def _sources() -> Iterator[Path]:
    own = {"redact.py", "secret_kinds.py"}
    for pattern in (
        "config/sample/workspace/**/*.md",
        "README.md",
        "CHANGELOG.md",
        "adapters/README.md",
        "config/*.toml",
    ):
        yield from sorted(ROOT.glob(pattern))
    for pattern in ("fusion/**/*.py", "adapters/**/*.py"):
        yield from sorted(path for path in ROOT.glob(pattern) if path.name not in own)
