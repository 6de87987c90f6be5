// The types of memory-fusion's HTTP API. Written by `python -m tests.typescript`: do not edit.

/** One access: when, what, to which memories, with which key, and how it ended. It never has a text. */
export interface Access {
  at: string;
  action: string;
  call: string;
  outcome: string;
  key: string;
  key_id: string;
  role: string;
  door: string;
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  refs: string[];
  count: number;
  receipt_id: string | null;
  decision: string | null;
  request_id: string;
}

/** The days up to today, the oldest first. */
export interface Activity {
  days: DayOfActivity[];
}

/** memory_append: lines for today's log. */
export interface AppendToolBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  text: string;
}

/** The place of appended lines; ``path`` is that of the log, or the ref of the note that they became. */
export interface Appended {
  path: string | null;
  ref: string | null;
  status: string;
  redacted: number;
  reason: string;
  startLine?: number;
  endLine?: number;
}

/** The changes to the draft that is approved; fields that are left out stay as they were proposed. */
export interface ApproveBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** what the memory says instead */
  text?: string | null;
  kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn" | null;
  importance?: number | null;
  /** trusted is the owner's to say */
  trust?: "trusted" | "unknown" | "untrusted" | "quarantined" | null;
  /** the reason, for the log */
  why?: string;
}

/** A question whose answer is watched, and may be replayed. */
export interface AskBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** Beyond 4,000 characters it is searched by its first and last 2,000, and the answer says so. */
  query: string;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** what had been recorded by then */
  known_at?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** when it is asked, if not now: what yesterday counts from */
  now?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** characters of the block at most, its frame included */
  budget_chars?: number | null;
  /** estimated tokens of the block at most; with budget_chars, both hold; either replaces the recipe's */
  budget_tokens?: number | null;
  /** excerpts in the block at most */
  max_results?: number | null;
  /** single memories in the block at most; an excerpt may have several */
  max_items?: number | null;
  /** what the block looks like; fence by default */
  format?: "fence" | "long-term" | "context-pack" | "cortex" | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
  /** ask only these */
  backends?: string[] | null;
  recipe?: string | null;
  /** the receipt's reasons with the answer */
  explain?: boolean;
  /** true: fill the block up to its limits; false: leave out what adds too little */
  fill?: boolean | null;
  /** false: answer whatever the prompt is, although the recipe's gate would be silent */
  gate?: boolean | null;
  asker?: AskerBody | null;
  /** keep the input of the answer in memory for ten minutes, for POST /v1/replay */
  record?: boolean;
}

/** An answer with its candidates; ``recording`` is the id to replay it by, null if it was not recorded. */
export interface Asked {
  answer: FuseReply;
  candidates: AskedCandidate[];
  recording: string | null;
}

/**
 * A candidate of an answer as its receipt has it, and the beginning of its text. ``text`` is null where it is not known
 * any more, and for what was left out as private.
 */
export interface AskedCandidate {
  ref: string;
  decision: string;
  reason: string;
  local: number;
  probability: number | null;
  sort: string;
  judge: number | null;
  rrf: number;
  neighbour_of: string | null;
  rivals: unknown[][];
  source_hits: SourceHitOfCandidate[];
  signals: Record<string, number>;
  text: string | null;
}

/** Who asks, while the scope says whose memories are searched. An asker never filters. */
export interface AskerBody {
  /** the agent that asks */
  agent_id?: string | null;
  /** its session: what was shown in it is not shown again */
  session_id?: string | null;
  /** where the answer goes */
  channel?: string | null;
  /** nothing shown earlier is in the session's context any more */
  new_context?: boolean;
  /** false: a block is in the context for one turn alone, so it may be shown again */
  keeps_blocks?: boolean;
}

/** The memory that asserts a fact. */
export interface AssertionRef {
  kind: "memory";
  ref: string;
}

/** A page of the access log, the newest first. */
export interface Audit {
  accesses: Access[];
  next_cursor: string | null;
  keep_days: number;
  waiting: number;
  fault: string;
}

/** The answer of one backend to one request, without its hits. */
export interface BackendAnswer {
  name: string;
  status: string;
  took_ms: number;
  count: number;
  error_code: string | null;
  detail?: string;
  dropped?: Record<string, number>;
  refused?: Record<string, number>;
}

/** The backends over the latest ``answers``, of which ``blocks`` had a memory, and the votes on recipes. */
export interface BackendHistory {
  answers: number;
  blocks: number;
  backends: BackendWorth[];
  votes: VotesOnRecipes;
}

/** What a backend's status and backlog have been since a time, until the next moment. */
export interface BackendMoment {
  at: string;
  status: string;
  backlog: number;
}

/**
 * What one backend did for an answer. ``in_block`` counts the memories of the block that it found, ``alone`` those that
 * no other backend found.
 */
export interface BackendOfReceipt {
  name: string;
  status: string;
  took_ms: number;
  count: number;
  in_block: number;
  alone: number;
}

/** The state of one backend: its health, what it holds, and its backlog. */
export interface BackendState {
  name: string;
  adapter: string;
  status: string;
  detail: string;
  items: number;
  vectors: number;
  vectors_pending: number;
  backlog: number;
  leaked: number;
  notes: string[];
  degraded: boolean;
}

/**
 * The state of one backend with its breaker and failed deliveries. Of its backlog it has refused ``refused`` so far;
 * ``failed`` were given up; ``reason`` is why one of these was. ``wait_s`` is the time until an open breaker lets a
 * call through.
 */
export interface BackendStatus {
  name: string;
  adapter: string;
  status: string;
  detail: string;
  items: number;
  vectors: number;
  vectors_pending: number;
  backlog: number;
  leaked: number;
  notes: string[];
  degraded: boolean;
  refused: number;
  failed: number;
  reason: string;
  breaker: "closed" | "open" | "half_open";
  wait_s: number;
}

/**
 * What one backend did for the latest answers. The percentiles are of the times in which it answered, null if it never
 * did. ``contributed`` is the share of the blocks with a memory that it found, ``alone`` of those with one that no
 * other backend found. ``spans`` are the answers in parts of the same size, ``moments`` the latest changes of its
 * breaker and its backlog; both have the oldest first.
 */
export interface BackendWorth {
  name: string;
  asked: number;
  answered: number;
  p50_ms: number | null;
  p95_ms: number | null;
  contributed: number;
  alone: number;
  votes: VotesOnBackend;
  spans: SpanOfAnswers[];
  moments: BackendMoment[];
}

export interface Backends {
  backends: BackendState[];
}

/** One ingest: its time, how many of its memories are kept, and the first and last of their sources. */
export interface Batch {
  id: string;
  at: string;
  memories: number;
  first: string;
  last: string;
}

export interface Batches {
  batches: Batch[];
}

/** What was recalled for a session's last question, summed up for its next one; ``cachedAt`` is in milliseconds. */
export interface CachedSynthesis {
  query: string;
  response: string;
  cachedAt: number;
}

/**
 * Who makes a request: the name of its key ("owner" with the home's token), its role and its tenant.
 * ``decides_on_proposals`` as `[proposals] decided_by` says.
 */
export interface Caller {
  name: string;
  role: "reader" | "proposer" | "writer" | "operator";
  tenant: string;
  decides_on_proposals: boolean;
}

/** A statement that could become a memory, with the refs of the memories that state it. */
export interface Candidate {
  text: string;
  kind: string;
  topic: string;
  importance: number;
  confidence: number;
  trust: string;
  evidence: string[];
}

/** Of which subject to compile the card. */
export interface CardBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  subject: string;
}

/** How many cards there are, and which of them are stale; ``ok`` is true if none is. */
export interface CardLint {
  ok: boolean;
  cards: number;
  stale: StaleCard[];
}

/** One line of a card, and the first ref that says so; ``refs`` are all. */
export interface CardText {
  ref: string;
  refs: string[];
  text: string;
}

/** Where a memory comes from; ``derived_from`` has the refs of the memories that it was extracted from. */
export interface ComesFrom {
  kind: string;
  ref: string;
  source: string | null;
  origin: string;
  document: string | null;
  position: number | null;
  speaker: string | null;
  recorded_at: string | null;
  trust: string;
  derived_from: string[];
}

/** A question to two arms: a recipe, which backends it asks, or both. */
export interface CompareBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** Beyond 4,000 characters it is searched by its first and last 2,000, and the answer says so. */
  query: string;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** what had been recorded by then */
  known_at?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** when it is asked, if not now: what yesterday counts from */
  now?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** characters of the block at most, its frame included */
  budget_chars?: number | null;
  /** estimated tokens of the block at most; with budget_chars, both hold; either replaces the recipe's */
  budget_tokens?: number | null;
  /** excerpts in the block at most */
  max_results?: number | null;
  /** single memories in the block at most; an excerpt may have several */
  max_items?: number | null;
  /** what the block looks like; fence by default */
  format?: "fence" | "long-term" | "context-pack" | "cortex" | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
  /**
   * seed003, default@markdown+cortex, @markdown, all, -mem0: a recipe, @ and backends joined by +, all of them, or all
   * but those behind a -
   */
  a?: string;
  /** the other arm */
  b: string;
}

/** Two answers from one gather; refs are those of a's block, and b's for memories only in b's block. */
export interface CompareReply {
  a: ComparedArm;
  b: ComparedArm;
  only_a: string[];
  only_b: string[];
  both: string[];
  why: ComparedMemory[];
  took_ms: number;
  query_truncated: boolean;
  notes: string[];
}

/**
 * The answer of one arm of a comparison; ``arm`` is the text of the request. ``waited_ms`` is the time of the slowest
 * of its backends, ``took_ms`` that of its ranking and packing alone.
 */
export interface ComparedArm {
  block: string;
  memories: Excerpt[];
  coverage: Coverage;
  degraded: boolean;
  backends: BackendAnswer[];
  rerank: Record<string, unknown>;
  recipe: RecipeName;
  receipt_id: string;
  took_ms: number;
  abstained: string | null;
  arm: string;
  characters: number;
  waited_ms: number;
  tuned_on: boolean;
}

export interface ComparedMemory {
  ref: string;
  a: ReceiptEntry;
  b: ReceiptEntry;
}

/**
 * One comparison over many questions. It has no question and no text of a memory. ``verdict`` is null without expected
 * answers. ``overlap`` is the mean share of memories that both blocks have.
 */
export interface Comparison {
  id: number;
  at: string;
  by: string;
  a: ComparisonArm;
  b: ComparisonArm;
  questions: number;
  unanswered: number;
  degraded: number;
  tuned_on: number;
  same_memories: number;
  overlap: number;
  verdict: ComparisonVerdict | null;
}

/** One arm of a comparison, and what its answers cost: means of a question, in characters and milliseconds. */
export interface ComparisonArm {
  arm: string;
  recipe: string;
  hash: string;
  backends: string[];
  only: number;
  empty: number;
  characters: number;
  waited_ms: number;
  took_ms: number;
}

/** One arm, and what its answers cost: means of a question. */
export interface ComparisonArmBody {
  arm: string;
  recipe: string;
  hash: string;
  backends: string[];
  only: number;
  empty: number;
  characters: number;
  waited_ms: number;
  took_ms: number;
}

/** The figures of a comparison over many questions, as `fusion compare --queries` prints them. */
export interface ComparisonBody {
  a: ComparisonArmBody;
  b: ComparisonArmBody;
  /** that both arms answered */
  questions: number;
  unanswered?: number;
  degraded?: number;
  /** questions that chose an arm's recipe */
  tuned_on?: number;
  /** questions with the same memories in both blocks */
  same_memories: number;
  /** mean share of memories that both blocks have */
  overlap: number;
  /** null without expected answers */
  verdict?: ComparisonVerdictBody | null;
}

/**
 * What the arms found of the expected answers: shares from 0 to 1, and b - a with its 95 % interval. ``n`` questions
 * count. ``better`` is null if the interval includes 0. ``seed`` is of the bootstrap.
 */
export interface ComparisonVerdict {
  n: number;
  a: number;
  b: number;
  difference: number;
  low: number;
  high: number;
  win: number;
  tie: number;
  loss: number;
  seed: number;
  better: string | null;
}

/** What the arms found of the expected answers, and b - a with its 95 % interval. */
export interface ComparisonVerdictBody {
  n: number;
  a: number;
  b: number;
  difference: number;
  low: number;
  high: number;
  win: number;
  tie: number;
  loss: number;
  seed?: number;
}

/** Stored comparisons, the newest first. */
export interface Comparisons {
  comparisons: Comparison[];
  next_cursor: string | null;
}

/** What two stores contradicted each other in, in one answer (`fusion.recall.contradictions`). */
export interface Contradiction {
  receipt_id: string;
  decision: string;
  on: string;
  refs: string[];
  stores: string[];
  at: (string | null)[];
  why: string;
}

/** What to recall, as Memory Cortex's ``POST /recall`` takes it. */
export interface CortexQuestion {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  query: string;
}

/** The reply to `POST /recall`: an answer in sentences, each with the refs of the memories that say it. */
export interface CortexRecall {
  response: string;
  memories_searched: number;
  memories_used: number;
  synthesis: "model" | "rules";
  refs: string[];
}

/** One result of `POST /hybrid-search`. ``id`` is a number, as Memory Cortex has; ``ref`` names the memory here. */
export interface CortexResult {
  id: number;
  ref: string;
  user_id: string;
  topic: string;
  fact: string;
  importance: number;
  created_at: string;
  score: number;
  source: string;
}

/** The reply to `POST /hybrid-search`: best first. */
export interface CortexResults {
  results: CortexResult[];
  count: number;
}

/** What to search for, as Memory Cortex's ``POST /hybrid-search`` takes it. */
export interface CortexSearchBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  query: string;
  limit?: number;
}

/**
 * Memories of the asking tenant, or of the scope that was asked for. ``superseded`` are earlier versions, ``forgotten``
 * are tombstones without text.
 */
export interface Counts {
  current: number;
  superseded: number;
  forgotten: number;
  by_backend?: Record<string, number>;
}

/** How many of the backends that were asked have answered; ``ratio`` leaves out skipped ones. */
export interface Coverage {
  total: number;
  ok: number;
  failed: number;
  skipped: number;
  ratio: number;
  vectors_pending?: number;
}

/** What holds about a subject at a time. */
export interface CurrentFacts {
  schema: string;
  subject: string;
  at: string;
  facts: TemporalFact[];
  excluded: ExcludedFact[];
}

/** A log that is shown: its day, and its name for `memory_get`. */
export interface DailyLog {
  day: string;
  path: string;
  truncated: boolean;
}

/** Today's and yesterday's logs, as a fenced block for a prompt; empty if there are none. */
export interface DailyLogs {
  block: string;
  logs: DailyLog[];
}

/** The logs of today and yesterday, for the start of a session. */
export interface DailyLogsBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** the user's time zone, instead of the setting: Europe/Berlin */
  zone?: string | null;
  /** of the block */
  budget_chars?: number;
}

/**
 * One day, UTC: how many memories were remembered, also by kind of source, forgotten and decided on. ``questions``
 * counts those whose receipts are kept. ``bytes`` are those of each part of the home at the last look of that day, as
 * in `Status`; without a scope only, and only for days on which the home was open.
 */
export interface DayOfActivity {
  day: string;
  remembered: number;
  forgotten: number;
  decisions: number;
  questions: number;
  sources: Record<string, number>;
  bytes?: Record<string, number>;
}

/**
 * One change of the state of one or more memories: when, by whom and why. ``run`` is the job run that it belongs to;
 * ``undoes`` is the decision that it took back, and ``undone_by`` the one that took this one back.
 */
export interface Decision {
  id: string;
  at: string;
  who: string;
  why: string;
  changes: StateChanged[];
  run: string | null;
  undoes: string | null;
  undone_by: string | null;
  proposal?: string;
}

/**
 * The decision that took one back, null for a whole run; ``undone`` is the number of decisions taken back. ``files``
 * are the changes of files that were taken back with a run, as "w3 MEMORY.md".
 */
export interface DecisionUndone {
  decision: Decision | null;
  undone: number;
  files?: string[];
}

/** A page of the log of decisions, newest first. */
export interface Decisions {
  decisions: Decision[];
  next_cursor: string | null;
}

/**
 * Two memories of a block that share most words and cannot both be true. ``kind`` says in what they differ: word, name,
 * number, negation or order; or version or value, if two stores have another version of one memory, or another value of
 * one attribute: then ``newer`` takes the place of the other. ``newer`` is the ref of the later one, null where that is
 * not known, and ``at`` its day; ``sources`` say where each of ``refs`` comes from.
 */
export interface Dispute {
  refs: string[];
  kind: string;
  newer: string | null;
  at: string | null;
  sources: string[];
}

export interface Document {
  path: string;
  unit: string;
  from: number;
  lines: number;
  text: string;
  truncated: boolean;
  next_from: number | null;
  sections?: DocumentSection[];
  versions?: DocumentVersion[];
}

/** A section of a page: lines ``start`` to ``end`` under these headings, and one sentence about them. */
export interface DocumentSection {
  headings: string[];
  start: number;
  end: number;
  summary: string;
  by: "rules" | "model";
}

/** An earlier version of a file in a git repository: when it was committed, by whom and with what message. */
export interface DocumentVersion {
  at: string;
  by: string;
  why: string;
  text: string;
}

/** An edge between two nodes, by their names; ``refs`` are the first five memories and facts that assert it. */
export interface DrawnEdge {
  source: string;
  target: string;
  relation: string;
  valid_from: string | null;
  valid_to: string | null;
  refs: string[];
}

/** When a plan is due: its time with the precision that is known, and when that is over. */
export interface Due {
  at: string;
  precision: string;
  until: string | null;
}

/**
 * One observation. ``summary`` is one line; ``payload`` and ``refs`` are there if they were asked for. ``pointer``
 * names its line in the log. ``truncated``: the payload was longer than its type allows.
 */
export interface Episode {
  ref: string;
  event_id: string;
  type: string;
  lane: string;
  ts: string;
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  project: string | null;
  tool: string | null;
  summary: string;
  trust: string;
  origin: string;
  truncated: boolean;
  redacted: boolean;
  importance: Record<string, unknown> | null;
  pointer: string | null;
  payload?: unknown;
  refs?: unknown;
  score?: number;
}

/**
 * One observation to keep as evidence. It names a user, an agent, a session or a project. The same event_id of one user
 * and agent is stored once.
 */
export interface EpisodeBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  type: "conversation.user" | "conversation.assistant" | "tool.call" | "tool.result" | "ops.decision" | "ops.alert" | "ops.observation";
  /** one line of at most 220 characters; without one, the beginning of the payload */
  summary?: string;
  /** what was said, called or returned; cut to 2,048, 4,096 or 8,192 bytes by type */
  payload?: JsonValue;
  /** what it belongs to; at most 1,024 bytes */
  refs?: Record<string, JsonValue> | null;
  /** when it happened, if not now */
  ts?: string | null;
  event_id?: string | null;
  /** the name of the tool */
  tool?: string | null;
  /** by default that of the tool: what it read, or an episode */
  lane?: "episodes" | "documents" | "resources" | "skills" | null;
  /** the source's own word for it */
  kind?: string | null;
  /** where it comes from */
  source?: string | null;
}

/** Which episodes to make vectors of: those of the scope that have none of the home's model, newest first. */
export interface EpisodeEmbedBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** of these lanes; none: of all */
  lanes?: ("episodes" | "documents" | "resources" | "skills")[];
  limit?: number;
}

/** The importance that a person gives an episode. */
export interface EpisodeGradeBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** 0 to 1, 86%, 86/100, must_remember, nice_to_have, ignore, unknown, or {score} or {label} */
  importance: number | string | Record<string, unknown>;
  /** the reason, which the episode shows */
  why?: string;
}

/** What became of one observation. ``ref`` is empty if it is not kept, or not in the ledger yet. */
export interface EpisodeKept {
  ref: string;
  event_id: string;
  status: "stored" | "duplicate" | "blocked" | "skipped";
  pointer: string;
  redacted: number;
  truncated: boolean;
  reason: string;
}

/** A page of episodes in the order of their times. */
export interface EpisodePage {
  episodes: Episode[];
  next_cursor: string | null;
}

/** Which episodes to list, in the order of their times. */
export interface EpisodeQueryBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** of these types; none: of all */
  types?: ("conversation.user" | "conversation.assistant" | "tool.call" | "tool.result" | "ops.decision" | "ops.alert" | "ops.observation")[];
  /** that happened then or later */
  after?: string | null;
  /** …or earlier; a date is the end of that day */
  before?: string | null;
  /** with payload and refs, which may be long */
  include_payload?: boolean;
  /** of these lanes; none: of all */
  lanes?: ("episodes" | "documents" | "resources" | "skills")[];
  limit?: number;
  newest_first?: boolean;
  /** next_cursor of the page before; none for the first page */
  cursor?: string | null;
}

/** Which episodes to redact: by ref, or all of a session. */
export interface EpisodeRedactBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** none: all episodes of session_id */
  refs?: string[];
  /** change nothing, and count */
  dry_run?: boolean;
}

/** A search among episodes, by words, by meaning, or both. */
export interface EpisodeSearchBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** of these types; none: of all */
  types?: ("conversation.user" | "conversation.assistant" | "tool.call" | "tool.result" | "ops.decision" | "ops.alert" | "ops.observation")[];
  /** that happened then or later */
  after?: string | null;
  /** …or earlier; a date is the end of that day */
  before?: string | null;
  /** with payload and refs, which may be long */
  include_payload?: boolean;
  query: string;
  /** vector and hybrid need vectors: POST /v1/episodes/embed */
  mode?: "lexical" | "hybrid" | "vector";
  /** other lanes are searched only if they are named */
  lanes?: ("episodes" | "documents" | "resources" | "skills")[];
  limit?: number;
  /** with the rank of each episode by words and by vectors */
  trace?: boolean;
}

/** Episodes, best first. ``vector_status`` says whether vectors took part; ``trace`` is there on request. */
export interface EpisodeSearchReply {
  mode: string;
  episodes: Episode[];
  vector_status: string;
  trace: Record<string, unknown> | null;
}

/** How many episodes got a vector of ``model``, and how many are left without one. */
export interface EpisodesEmbedded {
  model: string;
  embedded: number;
  left: number;
}

/** One entry for each observation, in the order of the request. */
export interface EpisodesKept {
  episodes: EpisodeKept[];
}

/** How many episodes were redacted, or would be in a dry run. */
export interface EpisodesRedacted {
  redacted: number;
  dry_run: boolean;
}

/** One excerpt of a document; ``ref`` and ``score`` are its best member's. */
export interface Excerpt {
  ref: string;
  document: string | null;
  at: string | null;
  score: number;
  members: Member[];
}

/** A fact that does not hold, and why. */
export interface ExcludedFact {
  id: string;
  status: string;
  reason: string;
}

/** What to extract statements from: a text, memories by ref, or a scope's memories of a document or a time. */
export interface ExtractBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** a text of yours */
  text?: string | null;
  /** who says the text */
  speaker?: string | null;
  /** these memories */
  refs?: string[] | null;
  /** memories of this conversation or file */
  document?: string | null;
  /** memories not before this; a date is its beginning, UTC */
  after?: string | null;
  /** memories before this; a date is its beginning, UTC */
  before?: string | null;
  /** memories that are read at most, the oldest first */
  limit?: number;
  /** by rules, or by the model of [model] */
  by?: "rules" | "model";
  /** queue the candidates as proposals */
  propose?: boolean;
}

/**
 * The candidates in what was read, and how many sentences were left out by reason; nothing is stored. ``proposals`` has
 * the outcomes of those that were queued, if that was asked for.
 */
export interface Extracted {
  writes_performed: false;
  method: "rules" | "model";
  read: number;
  candidates: Candidate[];
  left_out: Record<string, number>;
  proposals: ProposalOutcome[];
}

/** What to assert about a subject, and the memories that say so. */
export interface FactBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** by name: api-gateway */
  subject: string;
  /** owns, uses, depends_on, replaces, status, configured_as, decision, source_of_truth or retired_by */
  predicate: string;
  /** a text; JSON as text with object_type json; another subject as entity:postgres-16 */
  object: string;
  object_type?: "literal" | "entity_ref" | "json";
  /** memories and observations that say so: obs:m1z, ep:12; at least one */
  sources: string[];
  /** from when on it holds; now by default */
  valid_from?: string | null;
  /** until when; open by default */
  valid_to?: string | null;
  /** ids of facts about the same subject whose place it takes */
  supersedes?: string[];
  /** at most what its sources allow, the default */
  confidence_tier?: "low" | "source_capped" | "corroborated" | "operator_asserted" | null;
  /** operator is the owner's to say */
  asserted_by?: "operator" | "agent" | "tool" | "import";
}

/** A context pack (openclaw-mem.context-pack.v1) of facts; ``bundle_text`` goes into the prompt as it is. */
export interface FactBundle {
  schema: string;
  meta: FactPackMeta;
  bundle_text: string;
  items: FactItem[];
  notes: FactPackNotes;
}

export interface FactCitation {
  url: string | null;
  recordRef: string;
}

export interface FactCounts {
  facts: number;
  errors: number;
  warnings: number;
  stale: number;
}

/** Which fact does not hold any more, or never held. */
export interface FactEndBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** its id: fact:0123456789abcdef */
  fact: string;
  /** invalidated: it ended; retracted: it never held */
  how?: "invalidated" | "retracted";
  /** when it ended; now by default */
  at?: string | null;
  /** refs of memories that say so */
  sources?: string[];
  /** operator is the owner's to say */
  asserted_by?: "operator" | "agent" | "tool" | "import";
}

/** One finding of the lint about a fact, or about a pair of facts. */
export interface FactIssue {
  code: string;
  severity: "error" | "warning";
  fact: string;
  message: string;
  other: string | null;
}

/** One fact of a pack as a line. */
export interface FactItem {
  recordRef: string;
  layer: string;
  type: string;
  importance: string;
  trust: string;
  text: string;
  citations: FactCitation;
}

/** What is wrong with the facts; ``ok`` is true without errors. ``stale`` has at most 500 facts. */
export interface FactLint {
  schema: string;
  ok: boolean;
  counts: FactCounts;
  issues: FactIssue[];
  stale: TemporalFact[];
}

/** The object of a fact: a text, the ref of an entity, or a JSON value. */
export interface FactObject {
  type: string;
  value: unknown;
}

/** Of which subject to pack the current facts. */
export interface FactPackBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  subject: string;
  /** frame included */
  budget_tokens?: number;
  max_items?: number;
  /** also facts that are no current truth, marked as stale */
  include_stale?: boolean;
}

export interface FactPackMeta {
  ts: string;
  query: string;
  scope: string | null;
  budgetTokens: number;
  maxItems: number;
}

export interface FactPackNotes {
  how_to_use: string[];
}

/** The current facts about a subject as a context pack, with its trace. */
export interface FactPackReply {
  context_pack: FactBundle;
  trace: FactPackTrace;
}

/** Which facts are in a pack, and why others are not. */
export interface FactPackTrace {
  subject: string;
  includedFactIds: string[];
  excluded: LeftOutFact[];
  budgetTokens: number;
  maxItems: number;
  allIncludedHaveSources: boolean;
}

/** Nothing: the whole table of facts of the tenant is built again. */
export interface FactRebuildBody {
}

/** A source of a fact; ``status`` is ok, or what is wrong with it now: forgotten, replaced and so on. */
export interface FactSource {
  ref: string;
  status: string;
  trust: string;
}

/** What a fact is about: the ref of an entity, and its name as it was written. */
export interface FactSubject {
  ref: string;
  label: string;
}

/** All facts about a subject, oldest first. */
export interface FactTimeline {
  schema: string;
  subject: string;
  facts: TemporalFact[];
}

/** A fact that was asserted or ended. To take that back, forget ``memory``. */
export interface FactWritten {
  writes_performed: boolean;
  fact: TemporalFact;
  memory: string;
  superseded: string[];
}

/** How many assertions the table of facts has, and had before it was deleted. */
export interface FactsRebuilt {
  facts: number;
  before: number;
}

/** A job whose latest run failed, or ended with its process; ``began`` is when that run began. */
export interface FailedJob {
  job: string;
  began: string;
  why: string;
}

/** The feedback on an answer as it is now. */
export interface Feedback {
  receipt_id: string;
  useful: string[];
  useless: string[];
}

/**
 * Which memories of an answer were useful, and which were not; replaces earlier feedback on it. One of the two lists is
 * required: an empty list takes feedback back, and a missing field must not.
 */
export interface FeedbackBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  receipt_id: string;
  /** refs as the answer cites them; empty, without useless: taken back */
  useful?: string[];
  /** no ref may be both */
  useless?: string[];
  /** keep earlier feedback on the answer's other memories */
  merge?: boolean;
}

/** The use of a session's context window. Rules that are not set come from the settings. */
export interface FlushBody {
  /** tokens that the model takes */
  context_window: number;
  /** tokens in use; none: not known */
  total_tokens?: number | null;
  /** what comes next, which has to fit as well */
  message?: string;
  /** size of the session's transcript */
  transcript_bytes?: number | null;
  /** of this session so far */
  compactions?: number;
  /** `compactions` at the last flush */
  flushed_at?: number | null;
  /** the model has refused the context already */
  overflowed?: boolean;
  /** what the turn answers to; only a user's is flushed */
  trigger?: "user" | "heartbeat" | "cron" | "subagent";
  /** what the agent may do there; only rw is flushed */
  workspace?: "rw" | "ro" | "none";
  /** another program's command line runs the turns */
  cli_backend?: boolean;
  /** the user's time zone: Europe/Berlin */
  zone?: string | null;
  /** kept free for the reply */
  reserve_floor_tokens?: number | null;
  /** how long before that */
  soft_threshold_tokens?: number | null;
  /** 0: its size is left out */
  force_transcript_bytes?: number | null;
}

/**
 * Whether an agent should save now what it knows, and the turn to run; ``path`` is relative to its workspace.
 * ``expected_tokens`` includes the next message.
 */
export interface FlushPlan {
  flush: boolean;
  reason: string;
  threshold_tokens: number;
  expected_tokens: number | null;
  prompt: string;
  system_prompt: string;
  path: string;
  time: string;
  zone: string;
  rules: FlushRules;
}

export interface FlushRules {
  enabled: boolean;
  reserve_floor_tokens: number;
  soft_threshold_tokens: number;
  force_transcript_bytes: number;
}

/** What to forget: refs, or all memories of a scope that match every criterion, at most ``limit`` at once. */
export interface ForgetBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** these memories; excludes all other criteria */
  refs?: string[] | null;
  query?: string | null;
  /** memories of this source: file:/path, or as it was sent */
  source?: string | null;
  /** memories of this conversation or file */
  document?: string | null;
  /** not before this; a date is its beginning, UTC */
  after?: string | null;
  /** before this; a date is its beginning, UTC */
  before?: string | null;
  /** which time counts; without a time of its own, a memory happened when it was recorded */
  time?: "happened" | "recorded";
  /** 20 where a query finds them, else 500; send the same again to go on */
  limit?: number | null;
  /** next_cursor of the reply before, with the same criteria */
  cursor?: string | null;
  /** only show what would be forgotten */
  dry_run?: boolean;
}

/**
 * The result of a request to forget; ``pending`` counts the memories that some backend has not forgotten yet.
 * ``missing`` are unknown refs. With ``more``, send the same request again; for a dry run, with ``next_cursor``.
 * ``released`` has those of all receipts, in a dry run those that would be released.
 */
export interface ForgetReply {
  dry_run: boolean;
  found: FoundToForget[];
  receipts: Forgotten[];
  missing: string[];
  done: boolean;
  pending: number;
  more: boolean;
  next_cursor: string | null;
  released: string[];
}

/**
 * The outcome of forgetting a memory in each backend. It is deleted, absent, hidden (a user's own file), pending or
 * still_there. deleted: it was asked again and does not return it. pending: it did not answer. still_there: it reports
 * the deletion and still returns the memory. Both are asked again until they have forgotten; no answer shows the memory
 * meanwhile. ``also`` has the refs that went with it: the user's copies with the same words (``same``), its earlier
 * versions, and what was derived from it alone. ``released`` has the refs of memories that say nearly the same: they
 * were merged into what is forgotten, and are answered again.
 */
export interface Forgotten {
  ref: string;
  event_id: string;
  backends: Record<string, string>;
  also?: string[];
  same?: string[];
  released?: string[];
}

/** One entry of the audit of forgotten memories, without text; ``by`` is how the memory was selected. */
export interface ForgottenEntry {
  ref: string;
  at: string;
  by: string;
  backends: Record<string, string>;
}

/** A page of the audit, newest first. */
export interface ForgottenPage {
  forgotten: ForgottenEntry[];
  next_cursor: string | null;
}

/** When and by which criteria a memory was forgotten, and what each backend did. */
export interface ForgottenThen {
  at: string;
  by: string;
  backends: Record<string, string>;
}

/** An item of a search; ``score`` is null without a query, and for one that recall did not rank. */
export interface FoundItem {
  namespace: string[];
  key: string;
  value: Record<string, unknown>;
  ref: string;
  created_at: string;
  updated_at: string;
  score: number | null;
}

/**
 * One memory that matches a request to forget; ``text`` is short, and empty once it is forgotten. ``same_as``: it does
 * not match itself, and goes with that memory because it has the same words. A key below the role operator gets no text
 * of what is ``quarantined``.
 */
export interface FoundToForget {
  ref: string;
  text: string;
  backends: string[];
  at: string | null;
  source: string | null;
  same_as?: string | null;
  quarantined?: boolean;
}

/** A memory in full; its text may be ``truncated`` to the budget, and ``tokens`` are those of what is there. */
export interface FullRecord {
  ref: string;
  backend?: string;
  event_id: string | null;
  text: string;
  kind: string;
  speaker: string | null;
  at: string | null;
  recorded_at: string | null;
  document: string | null;
  position: number | null;
  source: string | null;
  trust: string;
  origin: string;
  scope: Record<string, string>;
  until?: string;
  entities?: string[];
  valid_to?: string;
  metadata?: Record<string, unknown>;
  grade?: Grade | null;
  provenance?: Provenance;
  priority?: "P0" | "P1" | "P2";
  due?: Due | null;
  backends?: string[];
  supersedes?: string | null;
  current?: boolean;
  said?: number;
  said_at?: string | null;
  included?: number;
  last_included_at?: string | null;
  retrieved?: number;
  last_retrieved_at?: string | null;
  state?: Record<string, unknown>;
  status?: "current" | "archived" | "superseded" | "retired" | "expired" | "decayed" | "lost" | "merged" | "quarantined";
  importance?: number | null;
  tags?: string[];
  withheld?: string;
  recordRef: string;
  tokens: number;
  truncated: boolean;
}

/** A question to all memories. */
export interface FuseBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** Beyond 4,000 characters it is searched by its first and last 2,000, and the answer says so. */
  query: string;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** what had been recorded by then */
  known_at?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** when it is asked, if not now: what yesterday counts from */
  now?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** characters of the block at most, its frame included */
  budget_chars?: number | null;
  /** estimated tokens of the block at most; with budget_chars, both hold; either replaces the recipe's */
  budget_tokens?: number | null;
  /** excerpts in the block at most */
  max_results?: number | null;
  /** single memories in the block at most; an excerpt may have several */
  max_items?: number | null;
  /** what the block looks like; fence by default */
  format?: "fence" | "long-term" | "context-pack" | "cortex" | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
  /** ask only these */
  backends?: string[] | null;
  recipe?: string | null;
  /** the receipt's reasons with the answer */
  explain?: boolean;
  /** true: fill the block up to its limits; false: leave out what adds too little */
  fill?: boolean | null;
  /** false: answer whatever the prompt is, although the recipe's gate would be silent */
  gate?: boolean | null;
  asker?: AskerBody | null;
}

/** The answer to a question; ``block`` goes into the prompt as it is. */
export interface FuseReply {
  block: string;
  memories: Excerpt[];
  coverage: Coverage;
  degraded: boolean;
  backends: BackendAnswer[];
  rerank: Record<string, unknown>;
  recipe: RecipeName;
  receipt_id: string;
  took_ms: number;
  abstained: string | null;
  query_truncated: boolean;
  explain: Record<string, unknown> | null;
  notes: string[];
  disputed: Dispute[];
  prepared: boolean;
}

/** memory_get: a page of a document, or a memory by its ref. */
export interface GetToolBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** as a result of memory_search names it */
  path: string;
  /** the first line or turn */
  from?: number;
  /** lines or turns at most */
  lines?: number;
}

/** The importance of a memory, 0 to 1, its label, and how it came about; ``method`` is manual if it was given. */
export interface Grade {
  score: number | null;
  label: "must_remember" | "nice_to_have" | "unknown" | "ignore";
  rationale: string;
  method: string;
  version: number;
  graded_at: string;
}

/** Whose memories to grade, and how. */
export interface GradeBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** change nothing, and count what a run would do */
  dry_run?: boolean;
  /** off only counts; else [jobs.grade] scorer */
  scorer?: "heuristic-v1" | "off" | null;
}

/**
 * The receipt of a run of the grader over memories without an importance, in the fields of openclaw-mem.
 * ``skipped_existing`` had one; ``skipped_disabled`` are of kinds that are not graded, or their grade was undone.
 * ``label_counts`` are those of all memories after the run. ``run`` names the run in the log of decisions; it is empty
 * if nothing was decided.
 */
export interface GradeReport {
  total_seen: number;
  graded_filled: number;
  skipped_existing: number;
  skipped_disabled: number;
  scorer_errors: number;
  label_counts: Record<string, number>;
  unfinished: boolean;
  dry_run: boolean;
  run: string;
}

/** From which entity to walk, and how far. */
export interface GraphBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** by name: Postgres 16 */
  entity: string;
  /** edges from the entity at most */
  depth?: number;
  limit?: number;
}

/** An entity with the path that justifies it: ``Hjul → uses → Postgres 16``, and the refs of all its edges. */
export interface GraphEntity {
  name: string;
  kind: string;
  hops: number;
  score: number;
  path: string;
  edges: GraphStep[];
  refs: string[];
}

/** For which idea to find projects. */
export interface GraphMatchBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** what you think of doing; the walk begins at the entities that it names */
  idea: string;
  limit?: number;
}

/** The projects that an idea fits, best first, and the entities that it names. */
export interface GraphMatches {
  idea: string;
  entities: string[];
  projects: GraphEntity[];
}

/** What was found from an entity on, nearest first. */
export interface GraphNeighbours {
  entity: string;
  found: GraphEntity[];
}

/** An entity of the graph; ``degree`` counts all its edges, also those to entities that are left out. */
export interface GraphNode {
  name: string;
  type: string;
  degree: number;
}

/** The most connected entities first, the edges between them, and how many entities are left out. */
export interface GraphOverview {
  nodes: GraphNode[];
  edges: DrawnEdge[];
  left_out: number;
}

/** Which part of the graph to draw: what is around some entities, or all of it. */
export interface GraphOverviewBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** entities at most, the most connected first */
  limit?: number;
  /** only what is around these entities */
  around?: string[];
  /** edges from one of them at most */
  depth?: number;
  /** as it was then; a date is the end of that day */
  at?: string | null;
}

/** Pages of Markdown by file name. */
export interface GraphPages {
  pages: Record<string, string>;
}

/** The shortest way between two entities; None if there is none. */
export interface GraphPath {
  entity: string;
  to: string;
  way: GraphEntity | null;
}

/** Between which entities to find the shortest way. */
export interface GraphPathBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** where it begins */
  entity: string;
  /** where it ends */
  to: string;
}

/** One edge of a path. ``relation`` is its kind, "" for a free one; ``refs`` assert it: memories and facts. */
export interface GraphStep {
  subject: string;
  predicate: string;
  object: string;
  relation: string;
  refs: string[];
}

export interface Health {
  status: "ok";
  version: string;
  pid: number;
}

/** A document with forgotten memories: the texts of these refs stay out of answers while the document has them. */
export interface HeldBack {
  document: string;
  refs: string[];
}

/** How many histories of sessions wait to be taken in, and why one of them failed, or empty. */
export interface HistoriesWaiting {
  waiting: number;
  fault: string;
}

/** The whole history of a session, as Memory Cortex's ``POST /ingest`` takes it after each turn. */
export interface HistoryBody {
  /** {role, content, name, timestamp} each; other roles than user and assistant are left out */
  messages: unknown[];
  session_id: string;
  channel?: string | null;
  user_id?: string | null;
  /** without it, that of a session_id like agent:main:telegram:1 */
  agent_id?: string | null;
  project?: string | null;
  /** the widest audience that may read it; without it private, unless it was a group's */
  audience?: "private" | "group" | null;
  /** take it in once no other call came for a while, else at once */
  debounce?: boolean;
}

/** The reply to `POST /ingest`: whether the history is kept, and when it is taken in unless another call comes. */
export interface HistoryKept {
  status: "accepted" | "skipped";
  session_id: string;
  due_at: string | null;
  reason: string;
}

/** One raw hit of a backend; the fields are those of `fusion.contract.Hit`, with ``linked`` for its graph score. */
export interface Hit {
  ref: string;
  native_id: string;
  text: string;
  scope: Record<string, string | null>;
  event_id: string | null;
  score: number | null;
  kind: string;
  raw_kind: string | null;
  speaker: string | null;
  at: MomentOutput | null;
  recorded_at: string | null;
  valid_from: string | null;
  valid_to: string | null;
  place: Place | null;
  trust: string;
  origin: string;
  derived_from: string[];
  path: string[];
  linked: number | null;
  fact: Triple | null;
  version_of: string | null;
  stated_by: string | null;
}

/** ``missing`` says what a partial export lacks; ``faults`` has the first lines that were left out, with reasons. */
export interface ImportReport {
  dry_run: boolean;
  created_at: string;
  program: string;
  tenants: TenantImport[];
  missing: string[];
  broken: number;
  faults: string[];
}

/** One block or pack that had the memory; its receipt has all candidates. */
export interface Inclusion {
  receipt_id: string;
  at: string;
  kind: string;
  place: number;
  why: string;
}

/** A question that a list of hits answers, one line each. */
export interface IndexBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  query: string;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** what had been recorded by then */
  known_at?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** when it is asked, if not now: what yesterday counts from */
  now?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** ask only these */
  backends?: string[] | null;
  recipe?: string | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
  asker?: AskerBody | null;
  /** hits at most */
  limit?: number;
  /** tokens of all lines at most; one is always there */
  budget_tokens?: number;
}

/** A hit, best first. */
export interface IndexHit {
  ref: string;
  recordRef: string;
  line: string;
  ts: string | null;
  kind: string;
  trust: string;
  importance: string;
  place: string | null;
  tokens: number;
  score: number;
  probability: number | null;
}

/** The hits of all memory systems for a question, one line each; ``left_out`` did not fit the limits. */
export interface IndexReply {
  hits: IndexHit[];
  left_out: number;
  tokens: number;
  next: NextStep | null;
  abstained: string | null;
  degraded: boolean;
  backends: BackendAnswer[];
  coverage: Coverage;
  receipt_id: string;
  took_ms: number;
  notes: string[];
}

/** One item. ``ref`` is that of its memory, which changes with each new value. */
export interface Item {
  namespace: string[];
  key: string;
  value: Record<string, unknown>;
  ref: string;
  created_at: string;
  updated_at: string;
}

/** The value of an item. Its owner is the scope in all its dimensions: in another scope the key is another item. */
export interface ItemBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** the widest audience that may read it */
  audience?: "private" | "group";
  /** a JSON object of at most 64,000 characters */
  value: Record<string, JsonValue>;
  origin?: "owner" | "agent" | "tool" | "import" | "system";
}

/** The item after a put. stored: it is new. superseded: it has a new value. duplicate: nothing changed. */
export interface ItemKept {
  namespace: string[];
  key: string;
  value: Record<string, unknown>;
  ref: string;
  created_at: string;
  updated_at: string;
  status: "stored" | "superseded" | "duplicate";
  redacted: number;
}

/** A page of namespaces, each with its labels. */
export interface ItemNamespaces {
  namespaces: string[][];
  more: boolean;
}

/** Which namespaces to list: those that begin and end with these labels, of which ``*`` is any. */
export interface ItemNamespacesBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  prefix?: string[];
  suffix?: string[];
  /** of deeper namespaces only the first so many labels are shown */
  max_depth?: number | null;
  limit?: number;
  offset?: number;
}

/** Which items to list: of a namespace and of those in it. */
export interface ItemSearchBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the labels of the namespace; none: all items of the owner */
  namespace?: string[];
  /** ranks the items; it leaves none out */
  query?: string | null;
  /** fields of the value with the value that is wanted, or {$eq, $ne, $gt, $gte, $lt, $lte} */
  filter?: Record<string, JsonValue>;
  limit?: number;
  offset?: number;
}

/** A page of items; ``more``: there are others beyond it. */
export interface Items {
  items: FoundItem[];
  more: boolean;
}

/**
 * A job. ``next`` is its next run; None while it is paused or off. ``last`` is its latest run. ``hosts`` has the latest
 * run of each host on which this home was served.
 */
export interface Job {
  name: string;
  does: string;
  schedule: string;
  budget_s: number;
  paused: boolean;
  next: string | null;
  progress: JobProgress | null;
  last: JobRun | null;
  hosts?: Record<string, JobRun>;
}

export interface JobLog {
  runs: JobRun[];
  next_cursor: string | null;
}

/** How many steps of a run are done, of how many; ``note`` is the step that is under way. */
export interface JobProgress {
  done: number;
  total: number | null;
  note: string;
}

/** The run; None if the job was not due. */
export interface JobRan {
  run: JobRun | null;
}

/** What a run did; empty while it is under way, and of a run that was lost. */
export interface JobReceipt {
  host?: string;
  took_s?: number;
  steps?: Steps;
  stopped?: string;
  faults?: Record<string, string>;
  result?: Record<string, unknown>;
}

/** One run of a job. ``slot`` is the time in its schedule that it was for; None for a run that was asked for. */
export interface JobRun {
  id: number;
  job: string;
  status: "running" | "done" | "stopped" | "failed" | "lost";
  began: string;
  ended: string | null;
  slot: string | null;
  dry_run: boolean;
  started_by: "schedule" | "request";
  receipt: JobReceipt;
}

export interface Jobs {
  jobs: Job[];
}

export type JsonValue = unknown;

/**
 * The feedback on one memory of one answer, with the answer's recipe and the memory's values at ranking time.
 * ``position`` counts from 1 in the order of the answer, including left out memories; ``found_by`` has the rank in each
 * backend's own answer. Never a text, and no query.
 */
export interface Label {
  receipt_id: string;
  ref: string;
  useful: boolean;
  at: string;
  scope: Record<string, string>;
  recipe: RecipeName;
  position: number;
  decision: string;
  local: number;
  judge: number | null;
  rrf: number;
  signals: Record<string, number>;
  found_by: Record<string, number>;
  sort?: string | null;
  best?: number[];
  encoders?: string[];
  weights_hash?: string;
}

/** A page of labels, oldest first; ``next_cursor`` asks for the next one, and is null on the last. */
export interface Labels {
  labels: Label[];
  next_cursor: string | null;
}

export interface LeftOutFact {
  fact_id: string;
  reason: string;
}

/** Whose memories to run the lifecycle over, and how. */
export interface LifecycleBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** change nothing, and count what a run would do */
  dry_run?: boolean;
  /** hours after which a memory of the lifetime ttl expires; else [lifecycle] ttl_hours */
  ttl_hours?: number | null;
  /** hours without use after which a session memory decays; else [lifecycle] idle_hours */
  idle_hours?: number | null;
  /** delete what expired in every backend; else [lifecycle] delete_expired */
  delete_expired?: boolean | null;
  /** archive what no block needed for long, by priority; else [lifecycle] archive_unused */
  archive_unused?: boolean | null;
}

/**
 * Numbers of memories that a run of the lifecycle changed, or in a dry run would change. ``released`` can be found
 * again, since the memory that they had been merged into ended. ``run`` names the run in the log of decisions; it is
 * empty if nothing was decided. ``notes`` are caveats for the counts.
 */
export interface LifecycleReport {
  expired: number;
  decayed: number;
  consolidated: number;
  retired: number;
  conflicts_resolved: number;
  scanned: number;
  released: number;
  deleted: number;
  archived: number;
  archived_by: Record<string, Record<string, number>>;
  dry_run: boolean;
  run: string;
  notes: string[];
}

/** One memory inside an excerpt. */
export interface Member {
  ref: string;
  text: string;
  speaker: string | null;
  at: string | null;
  kind: string;
  trust: string;
  backends: string[];
  score: number;
  place: Place | null;
  path: string[];
  passages: number[][];
  probability: number | null;
}

/** A page of memories, newest first; ``next_cursor`` asks for the next one, and is null on the last. */
export interface Memories {
  memories: StoredMemory[];
  next_cursor: string | null;
}

/** One memory to keep. With ``document`` and ``position``, sending the same text again changes nothing. */
export interface MemoryBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** the widest audience that may read it */
  audience?: "private" | "group";
  text: string;
  kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn";
  /** the source's own word for it */
  raw_kind?: string | null;
  speaker?: string | null;
  /** when it happened, or began, as precisely as it is known */
  at?: string | {
    utc: string;
    precision?: "second" | "minute" | "hour" | "day" | "month" | "year";
    zone?: string | null;
    /** when it ended, if that is later than the precision says */
    until?: string | null;
  } | null;
  /** when it ended: an episode lasts from at to the end of this */
  until?: string | {
    utc: string;
    precision?: "second" | "minute" | "hour" | "day" | "month" | "year";
    zone?: string | null;
    /** when it ended, if that is later than the precision says */
    until?: string | null;
  } | null;
  /** who and what an episode involves, by name */
  entities?: string[];
  /** the conversation or file that contains it */
  document?: string | null;
  /** its place there: turn or line, in order */
  position?: number | null;
  /** …and the last one, if it takes several */
  end?: number | null;
  unit?: "turn" | "line";
  /** where it comes from, part of its natural key */
  source?: string | null;
  revision?: string;
  origin?: "owner" | "agent" | "tool" | "import" | "system";
  valid_from?: string | null;
  valid_to?: string | null;
  /** ttl ends after 720 hours, session after 24 unused */
  lifetime?: "permanent" | "project" | "session" | "ttl" | null;
  /** it ends that long after it was stored; makes the lifetime ttl */
  ttl_seconds?: number | null;
  confidence?: number | null;
  importance?: number | string | Record<string, unknown> | null;
  provenance?: string | {
    kind?: string;
    ref?: string;
  } | null;
  /** P0 is kept unused, P1 for months, P2 for weeks */
  priority?: "P0" | "P1" | "P2" | null;
  /** when a plan is due; else the words of its text decide */
  due?: string | null;
  /** trusted is the owner's to say; quarantined is never answered */
  trust?: "trusted" | "unknown" | "untrusted" | "quarantined";
  tags?: string[];
  /** kept and shown; nothing searches it */
  metadata?: Record<string, JsonValue> | null;
  /** the ref of the memory that this one replaces */
  supersedes?: string | null;
}

/**
 * The use of a model since the server's start: by the tenant, or by all tenants for the home's operator. ``use`` is
 * judge, or model for all else that asks `[model]`, whose tokens are estimated. ``calls`` are by their outcome.
 * ``cost`` is by `[telemetry.prices]`, null for a model without a price.
 */
export interface ModelUse {
  model: string;
  use: string;
  calls: Record<string, number>;
  tokens_read: number;
  tokens_written: number;
  cost: number | null;
}

/**
 * A point in time with its precision; ``zone`` is the IANA name of the speaker's time zone. ``until`` is the end
 * (excluded) of something that lasted longer than the precision says: of an episode.
 */
export interface MomentInput {
  utc: string;
  precision?: "second" | "minute" | "hour" | "day" | "month" | "year";
  zone?: string | null;
  until?: string | null;
}

export interface MomentOutput {
  utc: string;
  precision: string;
  zone: string | null;
}

/** What the next step would cost: ``step`` is a command and a route, for these ``refs``. */
export interface NextStep {
  step: string;
  refs: string[];
  tokens: number;
}

/** A question that a context pack answers. */
export interface PackBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  /** Beyond 4,000 characters it is searched by its first and last 2,000. */
  query: string;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** what had been recorded by then */
  known_at?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** when it is asked, if not now: what yesterday counts from */
  now?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** ask only these */
  backends?: string[] | null;
  recipe?: string | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
  asker?: AskerBody | null;
  /** estimated tokens of bundle_text at most, its frame included */
  budget_tokens?: number;
  /** lines at most, the tail's included */
  max_items?: number;
  /** show all long memories in one layer: L0 one line, L1 a few sentences, L2 in detail */
  layer?: "L0" | "L1" | "L2" | null;
  /** long memories that may be shown in detail */
  max_l2?: number;
  /**
   * the last turns of the conversation, one a line: plain, or JSON with role and content; of a long text the end is
   * read
   */
  tail_text?: string;
  /** turns of the tail at most */
  tail_max_items?: number;
  /** tokens that the tail takes first; 240 by default, and in a small pack half of it */
  tail_budget_tokens?: number | null;
  /**
   * current facts and paths of the graph first: on if the query names an entity, auto if it also asks for relations or
   * has facts
   */
  graph?: "off" | "auto" | "on";
  /** after which paths are left out */
  graph_soft_ms?: number;
  /** after which the graph is left out */
  graph_hard_ms?: number;
  /** also why each candidate is in the pack or not */
  trace?: boolean;
  /**
   * lanes to search besides warm: hot adds what the session did lately, cold episodes as evidence; cold is also
   * searched where no memory answers
   */
  lanes?: ("hot" | "warm" | "cold")[];
  /** also memories that were archived */
  include_archived?: boolean;
}

/** Where an item comes from; ``url`` is a web address or a note's path without the folders of the machine. */
export interface PackCitation {
  url: string | null;
  recordRef: string;
}

/** One line of a pack. ``layer`` is L0 (one line), L1 (a few sentences) or L2 (in detail). */
export interface PackItem {
  recordRef: string;
  layer: string;
  type: string;
  importance: string;
  trust: string;
  text: string;
  citations: PackCitation;
}

/** When the pack was made, for which question, and its limits; ``scope`` is the project. */
export interface PackMeta {
  ts: string;
  query: string;
  scope: string | null;
  budgetTokens: number;
  maxItems: number;
}

export interface PackNotes {
  how_to_use: string[];
}

/** How a pack came about; ``GET /v1/receipts/{receipt_id}`` has the decision on every candidate. */
export interface PackReceipt {
  receipt_id: string;
  tokens: number;
  took_ms: number;
  abstained: string | null;
  degraded: boolean;
  backends: BackendAnswer[];
  coverage: Coverage;
  disputed: Dispute[];
  tail_left_out: number;
  notes: string[];
}

/** A context pack; ``bundle_text`` goes into the prompt as it is. ``trace`` is null unless it was asked for. */
export interface PackReply {
  schema: string;
  meta: PackMeta;
  bundle_text: string;
  items: PackItem[];
  notes: PackNotes;
  receipt: PackReceipt;
  trace: Record<string, unknown> | null;
}

/** Nothing: the path names the job. */
export interface PauseJobBody {
}

export interface Place {
  document: string;
  start: number;
  end: number;
  unit: string;
}

/** What a memory announces, and whether it is to come, due, or over since ``until``. */
export interface Plan {
  ref: string;
  recordRef: string;
  text: string;
  kind: string;
  status: "due" | "overdue" | "upcoming" | "undated";
  due: string | null;
  until: string | null;
  precision: string | null;
  trust: string;
  scope: Record<string, string>;
}

/** Plans by due time; ``more``: there are others beyond the limit. */
export interface Plans {
  plans: Plan[];
  more: boolean;
}

/**
 * A stable prefix. ``text`` goes into the prompt as it is, before what changes with every turn. Its first
 * ``stable_chars`` characters, whose ``hash`` this is, change only when ``version`` does: a marker for a provider's
 * prompt cache goes behind them.
 */
export interface Prefix {
  observations: PrefixObservation[];
  raw_buffer: RawTurn[];
  text: string;
  stable_chars: number;
  version: number;
  hash: string;
  changed_at: string;
  tokens: number;
  prefix_hit_rate: number | null;
  turns: number;
  rewrites: number;
  left_out: number;
}

/** Whose stable prefix: that of an agent, of all agents of a user, or of one session. */
export interface PrefixBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
}

/** All stable prefixes of a home: how many, their turns and rewrites, and the mean hit rate of all turns. */
export interface PrefixCounts {
  windows: number;
  turns: number;
  rewrites: number;
  prefix_hit_rate: number | null;
}

/** One observation: what stays of a turn. ``importance`` is from 0 to 1, ``label`` its label. */
export interface PrefixObservation {
  recordRef: string;
  at: string;
  importance: number | null;
  label: string;
  text: string;
}

/** RFC 9457 problem details. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  retry_after_s?: number;
  coverage?: Coverage;
  backends?: BackendAnswer[];
  current?: string;
  users?: string[];
  agents?: string[];
}

/**
 * One proposal: what the memory would say, who proposes it, why, and what was decided. ``ref`` is the memory that it
 * became, and ``decision`` the last decision on it, which can be undone. ``forgotten_before``: somebody forgot these
 * words earlier; to approve it stores them again.
 */
export interface Proposal {
  id: string;
  state: "open" | "approved" | "rejected" | "expired";
  text: string;
  kind: string;
  raw_kind: string | null;
  importance: number | null;
  trust: string;
  origin: string;
  source: string | null;
  supersedes: string | null;
  tags: string[];
  provenance: Record<string, string>;
  scope: Record<string, string>;
  evidence: string[];
  reason: string;
  proposed_by: string;
  role: string;
  at: string;
  decided_at: string | null;
  decided_by: string | null;
  why: string;
  ref: string | null;
  decision: string | null;
  forgotten_before: boolean;
}

/** One memory to propose. Nothing of it is remembered until somebody approves it. */
export interface ProposalBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** the widest audience that may read it */
  audience?: "private" | "group";
  /** one statement; [proposals] max_chars at most */
  text: string;
  kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn";
  /** openclaw-mem's word for its kind, instead of kind */
  category?: "fact" | "preference" | "decision" | "entity" | "task" | "other" | null;
  /** when it happened, as precisely as it is known */
  at?: string | {
    utc: string;
    precision?: "second" | "minute" | "hour" | "day" | "month" | "year";
    zone?: string | null;
    /** when it ended, if that is later than the precision says */
    until?: string | null;
  } | null;
  valid_to?: string | null;
  importance?: number | null;
  /** trusted is for whoever approves it */
  trust?: "unknown" | "untrusted" | "quarantined";
  tags?: string[];
  /** where it comes from */
  source?: string | null;
  provenance?: string | {
    kind?: string;
    ref?: string;
  } | null;
  /** the ref of the memory that it would replace */
  supersedes?: string | null;
  /** refs of the memories that it follows from, for whoever decides */
  derived_from?: string[];
  /** why it is worth keeping, for whoever decides */
  reason?: string;
}

/**
 * The result of a decision on a proposal; ``decision`` is its name in the log, by which it can be undone.
 * ``writes_performed``: a memory was stored, ``ref``. An approval of what is remembered already stores nothing, and its
 * ``status`` is duplicate.
 */
export interface ProposalDecided {
  writes_performed: boolean;
  proposal: Proposal;
  ref: string | null;
  status: "stored" | "superseded" | "duplicate" | "rejected";
  redacted: number;
  decision: string | null;
}

/**
 * The outcome for one proposal that was sent. proposed: it waits for a decision. duplicate: an open proposal says the
 * same, and ``id`` names that one. skipped: no text is left of it to propose, and ``id`` is empty.
 */
export interface ProposalOutcome {
  id: string;
  state: "open" | "approved" | "rejected" | "expired" | null;
  status: "proposed" | "duplicate" | "skipped";
  ref: string | null;
  redacted: number;
  reason: string;
}

/** A page of proposals, newest first, and how many there are by state. */
export interface Proposals {
  proposals: Proposal[];
  counts: Record<string, number>;
  next_cursor: string | null;
}

/**
 * The outcomes in the order of the request; ``proposal`` is the first one. ``writes_performed`` is true only if a
 * policy approved one at once. Otherwise nothing is stored yet.
 */
export interface ProposeReply {
  writes_performed: boolean;
  proposal: ProposalOutcome;
  proposals: ProposalOutcome[];
}

/** Where a memory comes from: a reference, and its kind. */
export interface Provenance {
  kind: "none" | "url" | "file_line" | "file_anchor" | "receipt" | "opaque";
  ref: string;
}

/** One turn that is not compressed yet, as its line in the text. */
export interface RawTurn {
  recordRef: string;
  at: string;
  session_id: string | null;
  line: string;
}

/** Readiness; without a key the reply has ``ready`` alone. */
export interface Ready {
  ready: boolean;
  reason?: string;
  backends?: Record<string, unknown>;
  notes?: string[];
}

/**
 * The entry of one memory in an arm's receipt. Without a ``ref`` it was no candidate; ``decision`` is an enum, and
 * ``reason`` explains it in words. ``found_by`` has the rank in each backend's own answer; a memory that joined as a
 * neighbour has none.
 */
export interface ReceiptEntry {
  ref: string | null;
  decision: string;
  reason: string;
  local: number | null;
  probability: number | null;
  judge: number | null;
  rrf: number | null;
  neighbour_of: string | null;
  signals: Record<string, number>;
  found_by: Record<string, number>;
}

/**
 * One answer in a list: its sizes and times, the refs in its block, and who asked. ``query`` is null unless the
 * question is one of the latest, which are in memory alone. ``memories`` counts those of the block, of which ``refs``
 * has the first hundred. ``tokens`` are those of the block, ``candidate_tokens`` those of every candidate in full, each
 * once; both are estimated, and the second is null in receipts of earlier versions.
 */
export interface ReceiptRow {
  receipt_id: string;
  at: string;
  query: string | null;
  took_ms: number;
  characters: number;
  tokens: number;
  candidate_tokens: number | null;
  memories: number;
  refs: string[];
  recipe: RecipeName;
  degraded: boolean;
  abstained: string | null;
  prepared: boolean;
  backends: BackendOfReceipt[];
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
}

/** A page of what was answered, newest first; ``latest`` asks for what comes later, as ``after``. */
export interface Receipts {
  receipts: ReceiptRow[];
  next_cursor: string | null;
  latest: string;
}

export interface ReceiptsKept {
  kept: number;
  keep_days: number;
}

export interface RecipeName {
  name: string;
  hash: string;
}

/** A recipe of the home: its values by part and name, as in its file. */
export interface RecipeValues {
  name: string;
  hash: string;
  fields: Record<string, Record<string, unknown>>;
}

/** The votes on what the blocks of one recipe had: ``share`` of them said useful, with its 95 % interval. */
export interface RecipeVotes {
  name: string;
  hash: string;
  answers: number;
  useful: number;
  useless: number;
  share: number;
  low: number;
  high: number;
}

/**
 * The recipes of the home; ``ranges`` has the JSON schema of each value by part and name: range, choices, default.
 * ``signals`` are the names that weights, penalties and factors may have, and ``default`` is the home's own recipe.
 */
export interface Recipes {
  default: string;
  recipes: RecipeValues[];
  ranges: Record<string, Record<string, Record<string, unknown>>>;
  signals: string[];
}

/** Which memories to read in full. */
export interface RecordsBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** refs as they are cited: m1z or obs:m1z */
  refs: string[];
  /** tokens of all texts at most */
  budget_tokens?: number;
}

/** Memories in full, in the order of their refs. Those in ``left_out`` had no room. */
export interface RecordsReply {
  records: FullRecord[];
  missing: string[];
  left_out: string[];
  tokens: number;
  next: NextStep | null;
}

/** Why a proposal is rejected. */
export interface RejectBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the reason, for the log and for whoever proposed it */
  why?: string;
}

/**
 * The outcome for one memory that was sent; it is kept if it is stored, superseded or duplicate. stored: it is new.
 * superseded: it is new, and replaces the earlier one in its place. duplicate: it exists already. blocked: it was
 * forgotten before. skipped: it has no text left to keep.
 */
export interface RememberOutcome {
  ref: string;
  event_id: string;
  status: "stored" | "superseded" | "duplicate" | "blocked" | "skipped";
  redacted: number;
  reason: string;
  supersedes: string | null;
  said: number;
  claimed?: boolean;
}

export interface RememberReply {
  memories: RememberOutcome[];
}

/** A recorded question, and the numbers to answer it by; they replace those of the question and of the recipe. */
export interface ReplayBody {
  /** the id that POST /v1/ask with record = true replied, of its receipt */
  recording: string;
  /** who asked; the recording of another is not found */
  user_id?: string | null;
  /** instead of the question's */
  recipe?: string | null;
  /** values of a recipe, nested as in its file; GET /v1/recipes has their names and ranges */
  changes?: Record<string, Record<string, JsonValue>>;
  budget_chars?: number | null;
  max_results?: number | null;
}

/** The other requests that the server works on now. */
export interface Requests {
  in_flight: number;
  queued: number;
}

/** The present content of files, by revisions. */
export interface RetireBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  files: WholeBody[];
  /** only count */
  dry_run?: boolean;
}

/** How many memories were retired because their files no longer contain them, in all and by source. */
export interface Retired {
  retired: number;
  sources: Record<string, number>;
  dry_run: boolean;
}

/** How to run a job. */
export interface RunJobBody {
  /** change nothing, and report what a run would do */
  dry_run?: boolean;
  /** run it only if its schedule says so and it is not paused */
  due?: boolean;
}

/** A question to one backend, answered with its raw hits. */
export interface SearchBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  backend: string;
  query: string;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  limit?: number;
}

/** The raw hits of one backend. */
export interface SearchReply {
  backend: BackendAnswer;
  hits: Hit[];
}

/** memory_search, with the field names of OpenClaw. */
export interface SearchToolBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** the home's owner asks for the memories of all users and agents */
  all_users?: boolean;
  query: string;
  /** results at most */
  maxResults?: number;
  /** results of at least this score */
  minScore?: number;
  /** instead of the setting */
  citations?: "auto" | "on" | "off" | null;
  /** ask only these */
  backends?: string[] | null;
  /** what was true then; a date is the end of that day */
  as_of?: string | null;
  /** the asker's, in which yesterday ends: Europe/Berlin; by default the home's */
  timezone?: string | null;
  /** only memories like this, by folder, tag, property, kind, speaker and time */
  where?: WhereBody | null;
  /** for everything, end to end */
  timeout_ms?: number | null;
}

/** What is kept of a session, by Memory Cortex's names. Times are milliseconds since 1970; None: never. */
export interface SessionState {
  session_id: string;
  memoryCortexIngestedAt: number | null;
  memoryCortexRecalledAt: number | null;
  memoryCortexFactsInjected: number;
  memoryCortexSynthesis: CachedSynthesis | null;
}

/** How long to wait until everything remembered is delivered and its vectors are there. */
export interface SettleBody {
  timeout_s?: number;
}

/** Whether everything remembered is delivered and its vectors are there. */
export interface Settled {
  settled: boolean;
  backends: BackendState[];
}

/** A source, and the number of its current memories. */
export interface SourceCount {
  source: string;
  memories: number;
}

export interface SourceHitOfCandidate {
  backend: string;
  ref: string;
  native_id: string;
  rank: number;
  reason: string;
  score?: number | null;
}

export interface Sources {
  sources: SourceCount[];
}

/** How fast a backend was for some answers that follow each other; ``at`` is the time of the first. */
export interface SpanOfAnswers {
  at: string;
  asked: number;
  answered: number;
  p50_ms: number | null;
  p95_ms: number | null;
}

export interface StaleCard {
  subject: string;
  reasons: string[];
}

/** The memory, and what to change about it; fields that are left out stay as they are. */
export interface StateBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** true hides it from now on; false makes it current again */
  archived?: boolean | null;
  /** quarantined memories are never answered */
  trust?: "trusted" | "unknown" | "untrusted" | "quarantined" | null;
  /** ttl ends after 720 hours, session after 24 unused */
  lifetime?: "permanent" | "project" | "session" | "ttl" | null;
  confidence?: number | null;
  importance?: number | string | Record<string, unknown> | null;
  provenance?: string | {
    kind?: string;
    ref?: string;
  } | null;
  /** P0 is kept unused, P1 for months, P2 for weeks */
  priority?: "P0" | "P1" | "P2" | null;
  /** when a plan is due */
  due?: string | null;
  /** the project that the memory belongs to */
  for_project?: string | null;
  tags?: string[] | null;
  /** the reason, for the log */
  why?: string;
  ref: string;
}

/** One memory that a decision changed, with the changed fields before and after. */
export interface StateChanged {
  ref: string;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

/** The decision that a request made; null if the state was so already. */
export interface StateReply {
  decision: Decision | null;
}

/** A triple that a memory states, as the rules or a model extracted it. */
export interface StatedFact {
  subject: string;
  predicate: string;
  object: string;
}

/** The comparison of new statements with earlier ones: how many wait, and the error of the last try, or empty. */
export interface Statements {
  waiting: number;
  fault: string;
}

/** Several memories of one owner, and what to change about each; fields that are left out stay as they are. */
export interface StatesBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** true hides it from now on; false makes it current again */
  archived?: boolean | null;
  /** quarantined memories are never answered */
  trust?: "trusted" | "unknown" | "untrusted" | "quarantined" | null;
  /** ttl ends after 720 hours, session after 24 unused */
  lifetime?: "permanent" | "project" | "session" | "ttl" | null;
  confidence?: number | null;
  importance?: number | string | Record<string, unknown> | null;
  provenance?: string | {
    kind?: string;
    ref?: string;
  } | null;
  /** P0 is kept unused, P1 for months, P2 for weeks */
  priority?: "P0" | "P1" | "P2" | null;
  /** when a plan is due */
  due?: string | null;
  /** the project that the memory belongs to */
  for_project?: string | null;
  tags?: string[] | null;
  /** the reason, for the log */
  why?: string;
  refs: string[];
  /** only show what would change */
  dry_run?: boolean;
}

/**
 * What changed about several memories, or with ``dry_run`` would, as one decision; null if nothing differs.
 * ``unchanged`` are those whose state was so already, ``missing`` the refs that name no memory.
 */
export interface StatesReply {
  dry_run: boolean;
  decision: Decision | null;
  changes: StateChanged[];
  unchanged: string[];
  missing: string[];
}

/** A home at a glance. ``bytes`` is by part of the home; ``notes`` say what is degraded, with the fix. */
export interface Status {
  version: string;
  uptime_s: number;
  backends: BackendStatus[];
  memories: Counts;
  receipts: ReceiptsKept;
  embedder: string | null;
  judge: string | null;
  judged?: Record<string, number>;
  silent?: Record<string, number>;
  bytes: Record<string, number>;
  notes: string[];
  held_back: HeldBack[];
  links: Record<string, number>;
  statements?: Statements;
  histories?: HistoriesWaiting;
  prefixes?: PrefixCounts;
  failed_jobs?: FailedJob[];
  agents?: Record<string, number>;
  models?: ModelUse[];
  incidents?: string[];
  requests: Requests;
  proposals?: Record<string, number>;
  caller?: Caller;
}

export interface Steps {
  done: number;
  total: number;
}

/**
 * One memory as it was sent; or, with ``backend``, an item of that backend's own, as it is now. If it was read by its
 * ref, the reply also has the ``backends`` that keep it, the event that it ``supersedes``, and whether it is
 * ``current``: it is not if another replaced it, or its file has it no more.
 */
export interface StoredMemory {
  ref: string;
  backend?: string;
  event_id: string | null;
  text: string;
  kind: string;
  speaker: string | null;
  at: string | null;
  recorded_at: string | null;
  document: string | null;
  position: number | null;
  source: string | null;
  trust: string;
  origin: string;
  scope: Record<string, string>;
  until?: string;
  entities?: string[];
  valid_to?: string;
  metadata?: Record<string, unknown>;
  grade?: Grade | null;
  provenance?: Provenance;
  priority?: "P0" | "P1" | "P2";
  due?: Due | null;
  backends?: string[];
  supersedes?: string | null;
  current?: boolean;
  said?: number;
  said_at?: string | null;
  included?: number;
  last_included_at?: string | null;
  retrieved?: number;
  last_retrieved_at?: string | null;
  state?: Record<string, unknown>;
  status?: "current" | "archived" | "superseded" | "retired" | "expired" | "decayed" | "lost" | "merged" | "quarantined";
  importance?: number | null;
  tags?: string[];
  withheld?: string;
}

/** A compiled summary of a subject. A stale one, with its reasons, shows no lines: refresh it. */
export interface SynthesisCard {
  subject: string;
  fresh: boolean;
  reasons: string[];
  lines: CardText[];
  digest: string;
  method: string;
  made_at: string;
}

/** One fact with its validity. Without ``authoritative`` it is no current truth, and ``reasons`` say why. */
export interface TemporalFact {
  schema: string;
  id: string;
  subject: FactSubject;
  predicate: string;
  object: FactObject;
  valid_from: string;
  valid_to: string | null;
  status: string;
  confidence_tier: string;
  source_refs: FactSource[];
  assertion_ref: AssertionRef;
  supersedes: string[];
  superseded_by: string[];
  created_at: string;
  asserted_by: string;
  authoritative: boolean;
  reasons: string[];
}

/**
 * What an import did, or would do, to one tenant's memories. ``trust`` is kept, or the most that the memories are
 * believed. ``blocked``: forgotten here. ``forgotten``: memories of this home that the export has as forgotten.
 * ``deleted``: the export has their ids alone. ``conflict``: another text has the id here. ``refused``: a secret in an
 * id, or nothing to store. ``new_refs``: they have another ref here.
 */
export interface TenantImport {
  tenant: string;
  journal: string;
  trust: string;
  new: number;
  known: number;
  blocked: number;
  forgotten: number;
  deleted: number;
  conflict: number;
  refused: number;
  new_refs: number;
  observations: number;
  proposals: number;
}

/** Which memories to show in what stands around them. */
export interface TimelineBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** refs as they are cited: m1z or obs:m1z */
  refs: string[];
  /** memories before each at most */
  before?: number;
  /** memories after each at most */
  after?: number;
  /** tokens of all lines at most, in equal shares; each memory itself is always there */
  budget_tokens?: number;
}

/** A memory of a timeline; ``anchor`` if it was asked for, and ``by`` what connects the others with it. */
export interface TimelineEntry {
  ref: string;
  recordRef: string;
  line: string;
  ts: string | null;
  kind: string;
  trust: string;
  importance: string;
  place: string | null;
  tokens: number;
  anchor: boolean;
  by: string;
}

/** What stands around memories, in reading order; ``missing`` are refs that name nothing here. */
export interface TimelineReply {
  entries: TimelineEntry[];
  missing: string[];
  left_out: number;
  tokens: number;
  next: NextStep | null;
}

export interface ToolReadReply {
  text: string;
  path: string;
  from?: number;
  lines?: number;
  truncated?: boolean;
  nextFrom?: number;
}

/** One result of memory_search. ``path`` is its document, or its ref if it has none. */
export interface ToolSearchItem {
  path: string;
  startLine: number;
  endLine: number;
  score: number;
  probability?: number | null;
  snippet: string;
  source: "memory" | "sessions";
  ref: string;
  kind: string;
  trust: string;
  backends: string[];
  vectorScore?: number;
  textScore?: number;
  citation?: string;
  at?: string;
  speaker?: string;
}

/** The result of memory_search; when no backend answered, an empty list with ``error`` and ``action``. */
export interface ToolSearchReply {
  results: ToolSearchItem[];
  provider?: string;
  model?: string | null;
  fallback?: Record<string, string> | null;
  degraded?: boolean;
  notice?: string | null;
  disabled?: boolean;
  unavailable?: boolean;
  error?: string;
  warning?: string;
  action?: string;
}

/** What needs a person, the most urgent first; ``counts`` are by kind, and ``more`` says that the limit cut some. */
export interface Triage {
  items: TriageItem[];
  counts: Record<string, number>;
  more: boolean;
}

/** The item to decide, and how. */
export interface TriageBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** its id, as GET /v1/triage lists it */
  item: string;
  /** the name of one of its choices */
  choice: string;
  /** the reason, for the log */
  why?: string;
}

/** One way to decide an item: its name, the key in a terminal, what it does, and the command that does it. */
export interface TriageChoice {
  name: string;
  key: string;
  does: string;
  command: string;
}

/**
 * The result of a choice. ``decision`` is its name in the log, which undoes it. It is null if nothing changed, and for
 * dead letters, which are kept in the file ``kept_in``.
 */
export interface TriageDecided {
  id: string;
  choice: string;
  decision: string | null;
  ref: string | null;
  writes_performed: boolean;
  kept_in: string | null;
}

/**
 * Something that needs a person. Without ``choices``, ``command`` shows more of it, and it is fixed elsewhere. ``POST
 * /v1/triage`` with ``id`` and the name of a choice decides it.
 */
export interface TriageItem {
  id: string;
  kind: "proposal" | "conflict" | "quarantined" | "low_trust" | "incident" | "failed_delivery" | "failed_job" | "overdue_plan" | "dead_letters";
  urgency: number;
  why: string;
  text: string;
  at: string | null;
  sides: TriageSide[];
  choices: TriageChoice[];
  command: string;
}

/** A memory that an item is about. */
export interface TriageSide {
  ref: string;
  text: string;
  at: string;
  trust: string;
}

/** A fact as a graph stores it. */
export interface Triple {
  subject: string;
  predicate: string;
  object: string;
}

/**
 * The trust of a memory, without its text. ``trust`` holds now, ``stated_trust`` came with the memory, and ``changes``
 * are the decisions between them, the latest first. ``packEligibility`` is openclaw-mem's word for whether a pack may
 * have it.
 */
export interface TrustReport {
  ref: string;
  recordRef: string;
  trust: "trusted" | "unknown" | "untrusted" | "quarantined";
  stated_trust: "trusted" | "unknown" | "untrusted" | "quarantined";
  quarantined: boolean;
  packEligibility: "excluded_by_quarantine" | "eligible_subject_to_pack_policy";
  origin: string;
  source: string | null;
  provenance: Provenance;
  changes: Decision[];
  included: number;
  last_included_at: string | null;
  retrieved: number;
  last_retrieved_at: string | null;
  rule: string;
}

/** The ingest to undo, at most ``limit`` memories at once. */
export interface UndoBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** its id, as `fusion ingest` printed it; else the last */
  batch?: string | null;
  /** send the same again to go on */
  limit?: number;
  /** only show what would be removed */
  dry_run?: boolean;
}

/** The decision to take back, or the run of which all decisions are taken back. */
export interface UndoDecisionBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  decision?: string | null;
  /** the run of a job, as its decisions name it, or as j12 to undo its changes of files */
  run?: string | null;
  /** only name the files that a run changed */
  dry_run?: boolean;
}

/**
 * The result of an undo: ``undone`` memories of a batch were removed, ``left`` are still to be removed. ``found`` has
 * the first of those that were removed, or with ``dry_run`` would be.
 */
export interface Undone {
  batch: string;
  dry_run: boolean;
  found: FoundToForget[];
  undone: number;
  left: number;
  restored: string[];
}

/** A new version of one memory: what is not set stays as it is. */
export interface UpdateBody {
  user_id?: string | null;
  agent_id?: string | null;
  run_id?: string | null;
  session_id?: string | null;
  /** boosts; never filters */
  project?: string | null;
  /** where the answer will be read */
  audience?: "private" | "group";
  /** what it says from now on */
  text?: string | null;
  kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn" | null;
  valid_from?: string | null;
  valid_to?: string | null;
  origin?: "owner" | "agent" | "tool" | "import" | "system";
}

/**
 * The new version of a memory, ``ref``, and the earlier one that it ``supersedes``. duplicate: the memory says that
 * already. ``batch`` undoes the update; None if nothing was changed.
 */
export interface UpdateReply {
  ref: string;
  event_id: string;
  status: "stored" | "superseded" | "duplicate" | "blocked" | "skipped";
  redacted: number;
  reason: string;
  supersedes: string | null;
  said: number;
  claimed?: boolean;
  batch: string | null;
}

/** How many votes said of a memory that a backend found that it was useful, or that it was not. */
export interface VotesOnBackend {
  useful: number;
  useless: number;
}

/** The recipes with votes, the best share first; ``better`` is one whose interval is above all others', or null. */
export interface VotesOnRecipes {
  recipes: RecipeVotes[];
  better: string | null;
}

/** What a memory must be like. Of several values of one field any will do; every field that is given must fit. */
export interface WhereBody {
  /** in these folders: customers, 2026/11 */
  folder?: string | string[];
  /** with these tags, in front matter or as #tag; nested ones count */
  tag?: string | string[];
  /** with these values of properties in the front matter of the note */
  property?: Record<string, string | string[]>;
  /** of these kinds */
  kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn" | ("rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn")[];
  /** said by these speakers, by name or a part of it */
  speaker?: string | string[];
  /** that happened, or were recorded, then or later */
  after?: string | null;
  /** …or earlier; a date is the end of that day */
  before?: string | null;
}

/** One whole file: all its memories except these revisions are retired. */
export interface WholeBody {
  /** the file, as its memories name it: file:/path */
  source: string;
  keep: string[];
  /** only of revisions that begin so: for a file of more pieces than one request takes */
  part?: string;
}

/**
 * What is known of a memory. ``status`` is current, superseded, retired, merged, quarantined, forgotten, or how it
 * ended (archived, expired, lost, …).
 */
export interface Why {
  ref: string;
  recordRef: string;
  status: string;
  provenance: ComesFrom | null;
  supersedes: string | null;
  superseded_by: string | null;
  state: Record<string, unknown>;
  copies: Record<string, string>;
  facts: StatedFact[];
  layers: Record<string, string>;
  included: number;
  inclusions: Inclusion[];
  contradictions: Contradiction[];
  changes: Decision[];
  forgotten: ForgottenThen | null;
}

/** The latest episodes of a session, oldest first, without their payloads. */
export interface WorkingSet {
  episodes: Episode[];
}

/** What each route takes and replies, by method and path. */
export interface Routes {
  /** Ask all memories; get one block that fits the prompt */
  "POST /v1/fuse": {
    path: {};
    query: {};
    body: FuseBody;
    reply: FuseReply;
  };
  /** Ask all memories; get one block that fits the prompt */
  "POST /fuse": {
    path: {};
    query: {};
    body: FuseBody;
    reply: FuseReply;
  };
  /** Answer a recorded question by other numbers, without asking any store */
  "POST /v1/replay": {
    path: {};
    query: {};
    body: ReplayBody;
    reply: Asked;
  };
  /** List the recipes with their values, and the range, choices and default of each value */
  "GET /v1/recipes": {
    path: {};
    query: {};
    body: undefined;
    reply: Recipes;
  };
  /** Ask once, answer by two arms, and show what differs and why */
  "POST /v1/compare": {
    path: {};
    query: {};
    body: CompareBody;
    reply: CompareReply;
  };
  /** Ask one backend; get its raw hits */
  "POST /v1/search": {
    path: {};
    query: {};
    body: SearchBody;
    reply: SearchReply;
  };
  /** Read a page of a document that a hit names */
  "GET /v1/documents": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** as a hit or an excerpt names its document */
      path: string;
      /** the first line or turn */
      from?: number;
      /** lines or turns at most */
      lines?: number;
      /** list the page's sections, each with a summary by rules, or by the model of [model] */
      summaries?: "rules" | "model" | null;
      /** earlier versions of its file at most, if the file is in a git repository */
      versions?: number;
    };
    body: undefined;
    reply: Document;
  };
  /** List who read, changed and forgot memories, newest first */
  "GET /v1/audit": {
    path: {};
    query: {
      /** only those of this kind */
      action?: "ask" | "read" | "list" | "remember" | "edit" | "forget" | "state" | "backend" | "export" | "import" | "gap" | null;
      /** only those at this time or later */
      since?: string | null;
      /** only those to the memories of this user */
      user_id?: string | null;
      /** only those to this memory, also in an answer */
      ref?: string | null;
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: Audit;
  };
  /** List what is remembered, page by page, all of it or what fits a filter */
  "GET /v1/memories": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** only those of this conversation or file */
      document?: string | null;
      /** only those from there */
      source?: string | null;
      kind?: "rule" | "procedure" | "fact" | "episode" | "preference" | "decision" | "plan" | "note" | "turn" | null;
      /** as it is now */
      trust?: "trusted" | "unknown" | "untrusted" | "quarantined" | null;
      origin?: "owner" | "agent" | "tool" | "import" | "system" | null;
      /** in one word what holds of it; by default all that nothing replaced */
      state?: "current" | "archived" | "superseded" | "retired" | "expired" | "decayed" | "lost" | "merged" | "quarantined" | "all" | null;
      /** only those that belong to this project now */
      in_project?: string | null;
      /** only those with this tag, as stated or set */
      tag?: string | null;
      /** happened, else recorded, not before this; a date: its begin */
      after?: string | null;
      /** …before this; a date is its beginning, UTC */
      before?: string | null;
      /** only those with this importance at least */
      min_importance?: number | null;
      /** only those that this backend has */
      backend?: string | null;
      /** only those with all of these words or parts of words, eight at most */
      q?: string | null;
      /** the latest recorded first; newest and oldest go by the time at which they happened */
      order?: "recorded" | "newest" | "oldest" | "importance";
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: Memories;
  };
  /** Remember one memory or up to a hundred; acknowledged is kept */
  "POST /v1/memories": {
    path: {};
    query: {};
    body: MemoryBody | MemoryBody[];
    reply: RememberReply;
  };
  /** Read one memory */
  "GET /v1/memories/{ref}": {
    path: {
      ref: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: StoredMemory;
  };
  /** Update one memory: a new version takes its place */
  "PATCH /v1/memories/{ref}": {
    path: {
      ref: string;
    };
    query: {};
    body: UpdateBody;
    reply: UpdateReply;
  };
  /** Forget one memory, in every backend */
  "DELETE /v1/memories/{ref}": {
    path: {
      ref: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Forgotten;
  };
  /** Forget by refs, query, source, document or time; or show what would be forgotten */
  "POST /v1/forget": {
    path: {};
    query: {};
    body: ForgetBody;
    reply: ForgetReply;
  };
  /** Undo one ingest; its files can be ingested again */
  "POST /v1/undo": {
    path: {};
    query: {};
    body: UndoBody;
    reply: Undone;
  };
  /** Archive or restore one memory, or change its trust, lifetime, confidence, importance, project or tags */
  "POST /v1/state": {
    path: {};
    query: {};
    body: StateBody;
    reply: StateReply;
  };
  /** Change the state of up to a hundred memories as one decision, or show what would change */
  "POST /v1/states": {
    path: {};
    query: {};
    body: StatesBody;
    reply: StatesReply;
  };
  /** List the decisions on memories, newest first: who, when, why, before and after */
  "GET /v1/decisions": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** only decisions on this memory */
      ref?: string | null;
      limit?: number;
      /** next_cursor of the page before */
      cursor?: string | null;
    };
    body: undefined;
    reply: Decisions;
  };
  /** Undo one decision, or all decisions of a run: each field that they changed has its earlier value again */
  "POST /v1/decisions/undo": {
    path: {};
    query: {};
    body: UndoDecisionBody;
    reply: DecisionUndone;
  };
  /** List the ingests that can be undone, latest first */
  "GET /v1/batches": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      limit?: number;
    };
    body: undefined;
    reply: Batches;
  };
  /** List what was forgotten, newest first: when, and what each backend did */
  "GET /v1/forgotten": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: ForgottenPage;
  };
  /** List the sources of memories, by name */
  "GET /v1/sources": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** only those that begin so: file:/home/ada/notes/ */
      prefix?: string | null;
      /** the last one of the page before */
      after?: string | null;
      limit?: number;
    };
    body: undefined;
    reply: Sources;
  };
  /** Retire the memories that files no longer contain */
  "POST /v1/retire": {
    path: {};
    query: {};
    body: RetireBody;
    reply: Retired;
  };
  /** Keep one observation or up to a hundred; acknowledged is kept */
  "POST /v1/episodes/append": {
    path: {};
    query: {};
    body: EpisodeBody | EpisodeBody[];
    reply: EpisodesKept;
  };
  /** List episodes in the order of their times, page by page */
  "POST /v1/episodes/query": {
    path: {};
    query: {};
    body: EpisodeQueryBody;
    reply: EpisodePage;
  };
  /** Show the latest episodes of one session, oldest first */
  "GET /v1/episodes/working-set": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      limit?: number;
    };
    body: undefined;
    reply: WorkingSet;
  };
  /** Read one episode, with its payload */
  "GET /v1/episodes/{ref}": {
    path: {
      ref: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Episode;
  };
  /** Set the importance of one episode by hand */
  "PATCH /v1/episodes/{ref}": {
    path: {
      ref: string;
    };
    query: {};
    body: EpisodeGradeBody;
    reply: Episode;
  };
  /** Search episodes by words, by meaning, or both, best first */
  "POST /v1/episodes/search": {
    path: {};
    query: {};
    body: EpisodeSearchBody;
    reply: EpisodeSearchReply;
  };
  /** Make the vectors of episodes that have none, for searches by meaning */
  "POST /v1/episodes/embed": {
    path: {};
    query: {};
    body: EpisodeEmbedBody;
    reply: EpisodesEmbedded;
  };
  /** Replace all that was said in episodes; each stays in its place */
  "POST /v1/episodes/redact": {
    path: {};
    query: {};
    body: EpisodeRedactBody;
    reply: EpisodesRedacted;
  };
  /** Assert a fact about a subject, with the memories that say so */
  "POST /v1/facts": {
    path: {};
    query: {};
    body: FactBody;
    reply: FactWritten;
  };
  /** Say that a fact does not hold any more, or never held */
  "POST /v1/facts/retract": {
    path: {};
    query: {};
    body: FactEndBody;
    reply: FactWritten;
  };
  /** Read the facts about a subject that hold now, or held at a time, and why others do not */
  "GET /v1/facts/current": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      subject: string;
      /** only facts with this predicate */
      predicate?: string | null;
      /** what held then; now by default */
      at?: string | null;
      /** also facts that are no current truth, marked as stale */
      include_stale?: boolean;
    };
    body: undefined;
    reply: CurrentFacts;
  };
  /** Read all facts about a subject, those that ended too, oldest first; or how one fact came about */
  "GET /v1/facts/timeline": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      subject?: string | null;
      /** a fact, instead of a subject: fact:0123456789abcdef */
      fact?: string | null;
      /** only facts with this predicate */
      predicate?: string | null;
    };
    body: undefined;
    reply: FactTimeline;
  };
  /** Check all facts: sources that are gone, contradictions, unknown entities, cycles */
  "GET /v1/facts/lint": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: FactLint;
  };
  /** Pack the current facts about a subject as a context pack, with the reason for each that is left out */
  "POST /v1/facts/pack": {
    path: {};
    query: {};
    body: FactPackBody;
    reply: FactPackReply;
  };
  /** Delete the table of facts and derive it again from the memories */
  "POST /v1/facts/rebuild": {
    path: {};
    query: {};
    body: FactRebuildBody;
    reply: FactsRebuilt;
  };
  /** List the memories with feedback, oldest first, each with the signals that ranked it */
  "GET /v1/feedback": {
    path: {};
    query: {
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: Labels;
  };
  /** Say which memories of an answer were useful, and which were not */
  "POST /v1/feedback": {
    path: {};
    query: {};
    body: FeedbackBody;
    reply: Feedback;
  };
  /** List the comparisons of two arms over many questions, newest first */
  "GET /v1/comparisons": {
    path: {};
    query: {
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: Comparisons;
  };
  /** Store the figures of a comparison over many questions, as `fusion compare --queries` does */
  "POST /v1/comparisons": {
    path: {};
    query: {};
    body: ComparisonBody;
    reply: Comparison;
  };
  /** List what was answered, newest first, page by page, or what was answered since */
  "GET /v1/receipts": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** the home's owner asks for the memories of all users and agents */
      all_users?: boolean;
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
      /** only what was answered after this receipt, or since an earlier reply's latest */
      after?: string | null;
    };
    body: undefined;
    reply: Receipts;
  };
  /** Show why each candidate of an answer is in the block or not */
  "GET /v1/receipts/{receipt_id}": {
    path: {
      receipt_id: string;
    };
    query: {
      /** who asked; the receipt of another question is not found */
      user_id?: string | null;
    };
    body: undefined;
    reply: Record<string, unknown>;
  };
  /** Count by day what was remembered, forgotten, decided and asked */
  "GET /v1/activity": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** up to today */
      days?: number;
    };
    body: undefined;
    reply: Activity;
  };
  /** Show how fast each backend was lately, and what it brought into the blocks */
  "GET /v1/backends/history": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** the home's owner asks for the memories of all users and agents */
      all_users?: boolean;
      /** the latest, at most */
      answers?: number;
    };
    body: undefined;
    reply: BackendHistory;
  };
  /** List the entities around one, nearest first, each with the path that justifies it */
  "POST /v1/graph/neighbors": {
    path: {};
    query: {};
    body: GraphBody;
    reply: GraphNeighbours;
  };
  /** List what uses an entity or is blocked by it, directly or over others */
  "POST /v1/graph/impact": {
    path: {};
    query: {};
    body: GraphBody;
    reply: GraphNeighbours;
  };
  /** Find the shortest way from one entity to another */
  "POST /v1/graph/path": {
    path: {};
    query: {};
    body: GraphPathBody;
    reply: GraphPath;
  };
  /** Draw the graph: its most connected entities, and the edges between them */
  "POST /v1/graph/overview": {
    path: {};
    query: {};
    body: GraphOverviewBody;
    reply: GraphOverview;
  };
  /** Recommend the projects that an idea fits, each with the path that leads to it */
  "POST /v1/graph/match": {
    path: {};
    query: {};
    body: GraphMatchBody;
    reply: GraphMatches;
  };
  /** Export the facts as pages of Markdown, one for each subject, with an index */
  "GET /v1/graph/pages": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: GraphPages;
  };
  /** Read the synthesis card of a subject, and whether it is fresh */
  "GET /v1/cards": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      subject: string;
    };
    body: undefined;
    reply: SynthesisCard;
  };
  /** Compile the synthesis card of a subject from what holds now */
  "POST /v1/cards/refresh": {
    path: {};
    query: {};
    body: CardBody;
    reply: SynthesisCard;
  };
  /** List the synthesis cards that are stale, each with the reasons */
  "GET /v1/cards/lint": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: CardLint;
  };
  /** Put one item: a memory with a namespace and a key, whose content is a JSON object */
  "PUT /v1/items/{namespace}/{key}": {
    path: {
      /** its labels joined by dots; in a label ~0 stands for ~, ~1 for / and ~2 for . */
      namespace: string;
      /** the key in the namespace, written like a label; a dot may stand as it is */
      key: string;
    };
    query: {};
    body: ItemBody;
    reply: ItemKept;
  };
  /** Read one item, as it was put last */
  "GET /v1/items/{namespace}/{key}": {
    path: {
      /** its labels joined by dots; in a label ~0 stands for ~, ~1 for / and ~2 for . */
      namespace: string;
      /** the key in the namespace, written like a label; a dot may stand as it is */
      key: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Item;
  };
  /** Forget one item with its earlier values, in every backend */
  "DELETE /v1/items/{namespace}/{key}": {
    path: {
      /** its labels joined by dots; in a label ~0 stands for ~, ~1 for / and ~2 for . */
      namespace: string;
      /** the key in the namespace, written like a label; a dot may stand as it is */
      key: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Forgotten;
  };
  /** List the items of a namespace and of those in it, by a filter, and ranked by a query */
  "POST /v1/items/search": {
    path: {};
    query: {};
    body: ItemSearchBody;
    reply: Items;
  };
  /** List the namespaces in which an owner has items */
  "POST /v1/items/namespaces": {
    path: {};
    query: {};
    body: ItemNamespacesBody;
    reply: ItemNamespaces;
  };
  /** List the jobs: schedules, next and last runs, progress */
  "GET /v1/jobs": {
    path: {};
    query: {};
    body: undefined;
    reply: Jobs;
  };
  /** List the runs of jobs, the latest first, each with its receipt */
  "GET /v1/jobs/log": {
    path: {};
    query: {
      /** only those of this job */
      job?: string | null;
      limit?: number;
      /** next_cursor of the page before; none for the first page */
      cursor?: string | null;
    };
    body: undefined;
    reply: JobLog;
  };
  /** Run a job now, and wait for its receipt */
  "POST /v1/jobs/{name}/run": {
    path: {
      name: string;
    };
    query: {};
    body: RunJobBody;
    reply: JobRan;
  };
  /** Stop running a job by its schedule */
  "POST /v1/jobs/{name}/pause": {
    path: {
      name: string;
    };
    query: {};
    body: PauseJobBody;
    reply: Job;
  };
  /** Run a paused job by its schedule again */
  "POST /v1/jobs/{name}/resume": {
    path: {
      name: string;
    };
    query: {};
    body: PauseJobBody;
    reply: Job;
  };
  /** Keep the whole history of a session, after each of its turns; it is taken in later */
  "POST /ingest": {
    path: {};
    query: {};
    body: HistoryBody;
    reply: HistoryKept;
  };
  /** What is kept of a session: when it was taken in and asked, and what waits for its next question */
  "GET /v1/session": {
    path: {};
    query: {
      session_id: string;
      user_id?: string | null;
      /** without it, that of a session_id like agent:main:telegram:1 */
      agent_id?: string | null;
    };
    body: undefined;
    reply: SessionState;
  };
  /** Search all memories by words and vectors: .4 of the one score and .6 of the other */
  "POST /hybrid-search": {
    path: {};
    query: {};
    body: CortexSearchBody;
    reply: CortexResults;
  };
  /** Answer a question from all memories in a few sentences, each with its refs */
  "POST /recall": {
    path: {};
    query: {};
    body: CortexQuestion;
    reply: CortexRecall;
  };
  /** List the backends, with their state and what they hold */
  "GET /v1/backends": {
    path: {};
    query: {};
    body: undefined;
    reply: Backends;
  };
  /** Run a verb of one backend */
  "POST /v1/backends/{backend}/{verb}": {
    path: {
      backend: string;
      verb: string;
    };
    query: {};
    body: Record<string, unknown>;
    reply: Record<string, unknown>;
  };
  /** Expire, decay, retire and merge memories, and resolve conflicts */
  "POST /v1/lifecycle": {
    path: {};
    query: {};
    body: LifecycleBody;
    reply: LifecycleReport;
  };
  /** Give memories without an importance one by rules */
  "POST /v1/grade": {
    path: {};
    query: {};
    body: GradeBody;
    reply: GradeReport;
  };
  /** The state of the home: backends, breakers, backlog, sizes */
  "GET /v1/status": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Status;
  };
  /** Wait until everything remembered is delivered and has its vectors */
  "POST /v1/settle": {
    path: {};
    query: {};
    body: SettleBody;
    reply: Settled;
  };
  /** Liveness of the server */
  "GET /healthz": {
    path: {};
    query: {};
    body: undefined;
    reply: Health;
  };
  /** Readiness of the server; 503 while it starts or stops */
  "GET /readyz": {
    path: {};
    query: {};
    body: undefined;
    reply: Ready;
  };
  /** Ask all memories; get a context pack: bounded, cited lines for the prompt, and the same as JSON */
  "POST /v1/pack": {
    path: {};
    query: {};
    body: PackBody;
    reply: PackReply;
  };
  /** Read the stable prefix of an agent's sessions: observations, and below them the last turns word for word */
  "POST /v1/prefix": {
    path: {};
    query: {};
    body: PrefixBody;
    reply: Prefix;
  };
  /** Propose one memory or up to a hundred; somebody else decides whether it is stored */
  "POST /v1/store/propose": {
    path: {};
    query: {};
    body: ProposalBody | ProposalBody[];
    reply: ProposeReply;
  };
  /** List proposals, newest first */
  "GET /v1/proposals": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** only those in this state; any: all of them */
      state?: "open" | "approved" | "rejected" | "expired" | "any";
      limit?: number;
      /** next_cursor of the page before */
      cursor?: string | null;
    };
    body: undefined;
    reply: Proposals;
  };
  /** Read one proposal, with what was decided on it */
  "GET /v1/proposals/{proposal}": {
    path: {
      proposal: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: Proposal;
  };
  /** Approve a proposal, as it is or edited: it is stored as every memory is */
  "POST /v1/proposals/{proposal}/approve": {
    path: {
      proposal: string;
    };
    query: {};
    body: ApproveBody;
    reply: ProposalDecided;
  };
  /** Reject a proposal: nothing is stored, and its proposer sees why */
  "POST /v1/proposals/{proposal}/reject": {
    path: {
      proposal: string;
    };
    query: {};
    body: RejectBody;
    reply: ProposalDecided;
  };
  /** Extract statements for review, with the memories that state them; no memory is stored */
  "POST /v1/store/extract": {
    path: {};
    query: {};
    body: ExtractBody;
    reply: Extracted;
  };
  /** Ask all memories; get a list of hits, one line each, and what the next step would cost */
  "POST /v1/index": {
    path: {};
    query: {};
    body: IndexBody;
    reply: IndexReply;
  };
  /** Show what stands around memories: in their document or session, else in time */
  "POST /v1/timeline": {
    path: {};
    query: {};
    body: TimelineBody;
    reply: TimelineReply;
  };
  /** Read memories in full, within a budget of tokens */
  "POST /v1/records": {
    path: {};
    query: {};
    body: RecordsBody;
    reply: RecordsReply;
  };
  /** Explain one memory: its origin, every change of its state, its copies, and the blocks and packs with it */
  "GET /v1/why/{ref}": {
    path: {
      ref: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      limit?: number;
    };
    body: undefined;
    reply: Why;
  };
  /** Explain the trust of one memory: where it comes from, each change, and its use */
  "GET /v1/trust/{ref}": {
    path: {
      ref: string;
    };
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
    };
    body: undefined;
    reply: TrustReport;
  };
  /** List plans that are due or overdue, the earliest first */
  "GET /v1/plans": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      /** also those that are not due yet, or have no due time */
      everything?: boolean;
      limit?: number;
    };
    body: undefined;
    reply: Plans;
  };
  /** An agent's tool: single memories with path, lines and citation; an empty list when no backend answers */
  "POST /v1/tools/memory_search": {
    path: {};
    query: {};
    body: SearchToolBody;
    reply: ToolSearchReply;
  };
  /** An agent's tool: lines of a document, or a memory; an empty text for an unknown path */
  "POST /v1/tools/memory_get": {
    path: {};
    query: {};
    body: GetToolBody;
    reply: ToolReadReply;
  };
  /** An agent's tool: append to today's log */
  "POST /v1/tools/memory_append": {
    path: {};
    query: {};
    body: AppendToolBody;
    reply: Appended;
  };
  /** Today's and yesterday's logs, for a host that does not load them at the start of a session */
  "POST /v1/tools/daily_logs": {
    path: {};
    query: {};
    body: DailyLogsBody;
    reply: DailyLogs;
  };
  /** Whether an agent should save what it knows before its context is compacted, and with which prompt */
  "POST /v1/flush/plan": {
    path: {};
    query: {};
    body: FlushBody;
    reply: FlushPlan;
  };
  /** Import an export, or only count what that would do */
  "POST /v1/import": {
    path: {};
    query: {
      /** count, and change nothing */
      dry_run?: boolean;
      /** the most that its memories are believed; keep: it is your own, as auto takes one of this journal */
      trust?: "auto" | "keep" | "unknown" | "untrusted";
      /** also an export that is cut off or has broken lines, without these */
      partial?: boolean;
      /** a line for each memory that gets another ref; needs Accept: application/x-ndjson */
      refs?: boolean;
      /** only this tenant of the export */
      tenant?: string | null;
    };
    body: Record<string, unknown>;
    reply: ImportReport;
  };
  /** List what needs a person, the most urgent first */
  "GET /v1/triage": {
    path: {};
    query: {
      user_id?: string | null;
      agent_id?: string | null;
      run_id?: string | null;
      session_id?: string | null;
      /** boosts; never filters */
      project?: string | null;
      /** where the answer will be read */
      audience?: "private" | "group";
      limit?: number;
    };
    body: undefined;
    reply: Triage;
  };
  /** Decide one item by a choice that it lists; POST /v1/decisions/undo takes it back */
  "POST /v1/triage": {
    path: {};
    query: {};
    body: TriageBody;
    reply: TriageDecided;
  };
}
