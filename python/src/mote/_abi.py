# SPDX-License-Identifier: Apache-2.0
"""ctypes declarations of mote.h and mote_chat.h. Made by python/generate_abi; do not edit."""
from __future__ import annotations

from ctypes import (
    CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_ubyte,
    c_uint, c_uint8, c_uint32, c_uint64, c_void_p,
)
from typing import Any

MOTE_NUMERICS = 2
MOTE_OK = 0
MOTE_E_ARG = 1
MOTE_E_MEMORY = 2
MOTE_E_IO = 3
MOTE_E_FORMAT = 4
MOTE_E_UNSUPPORTED = 5
MOTE_E_FULL = 6
MOTE_E_CANCELED = 7
MOTE_E_MISMATCH = 8
MOTE_ISA_BEST = 0
MOTE_ISA_REF = 1
MOTE_ISA_AVX2 = 2
MOTE_ISA_AVXVNNI = 8
MOTE_ISA_AVX512 = 3
MOTE_ISA_AMX = 4
MOTE_ISA_NEON = 5
MOTE_ISA_DOTPROD = 6
MOTE_ISA_I8MM = 7
MOTE_FILE_SAME = 0
MOTE_FILE_REPLACED = 1
MOTE_FILE_DAMAGED = 2
MOTE_TEXT_CONTROL = 1
MOTE_PIECE_BYTES = 4096
MOTE_MAX_LORAS = 8
MOTE_MAX_LORA_RANK = 4096
MOTE_KV_F16 = 0
MOTE_KV_F32 = 1
MOTE_KV_Q8_0 = 2
MOTE_KV_Q4_0 = 3
MOTE_PIN_AUTO = 0
MOTE_PIN_OFF = 1
MOTE_PIN_CORES = 2
MOTE_PAGE_POSITIONS = 64
MOTE_STATE_POSITIONS = 32
MOTE_IDENTITY_BYTES = 16
MOTE_BLOCK_PAGE = 0
MOTE_BLOCK_STATE = 1
MOTE_LOGITS_LAST = 0
MOTE_LOGITS_NONE = 1
MOTE_LOGITS_ALL = 2
MOTE_HIDDEN_LAST = 3
MOTE_HIDDEN_SUM = 4
MOTE_MAX_DRAFTS = 8
MOTE_TOP_LOGPROBS = 20
MOTE_REPEAT_LAST = 64
MOTE_IMAGE_SIDE = 32
MOTE_IMAGE_MAX_TOKENS = 16384
MOTE_CHAT_ALL = 18446744073709551615
MOTE_THINK_MAX = 4294967295
MOTE_TEMPLATE_NOTE = 320
MOTE_ROLE_USER = 0
MOTE_ROLE_ASSISTANT = 1
MOTE_ROLE_SYSTEM = 2
MOTE_ROLE_TOOL = 3
MOTE_THINK_AUTO = 0
MOTE_THINK_ON = 1
MOTE_THINK_OFF = 2
MOTE_THINK_MINIMAL = 256
MOTE_THINK_LOW = 1024
MOTE_THINK_MEDIUM = 4096
MOTE_THINK_HIGH = 16384
MOTE_THINK_XHIGH = 32768
MOTE_TASK_GENERAL = 0
MOTE_TASK_CODING = 1
MOTE_TASK_REASONING = 2
MOTE_TASK_VISION = 3
MOTE_FORMAT_TEXT = 0
MOTE_FORMAT_JSON = 1
MOTE_FORMAT_JSON_SCHEMA = 2
MOTE_FORMAT_REGEX = 3
MOTE_FORMAT_CHOICES = 4
MOTE_FORMAT_GRAMMAR = 5
MOTE_TOOLS_AUTO = 0
MOTE_TOOLS_NONE = 1
MOTE_TOOLS_REQUIRED = 2
MOTE_TOOLS_NAMED = 3
MOTE_SET_TEMPERATURE = 1
MOTE_SET_TOP_K = 2
MOTE_SET_TOP_P = 4
MOTE_SET_MIN_P = 8
MOTE_SET_PRESENCE = 16
MOTE_SET_FREQUENCY = 32
MOTE_SET_REPETITION = 64
MOTE_SET_TYPICAL_P = 128
MOTE_SET_REPEAT_LAST = 256
MOTE_CHAT_PREFILL = 0
MOTE_CHAT_REASONING = 1
MOTE_CHAT_CONTENT = 2
MOTE_CHAT_CALL_START = 3
MOTE_CHAT_CALL_ARGUMENTS = 4
MOTE_CHAT_CALL_END = 5
MOTE_CHAT_CALL_CANCEL = 6
MOTE_CHAT_WARNING = 7
MOTE_CHAT_STOPS = 16
MOTE_CHAT_STOP_BYTES = 256
MOTE_SPEC_OFF = -1
MOTE_SPEC_AUTO = 0
MOTE_SPEC_MAX = 8
MOTE_SPEC_ROWS = 9
MOTE_FINISH_STOP = 0
MOTE_FINISH_LENGTH = 1
MOTE_FINISH_TOOL_CALLS = 2
MOTE_FINISH_STOP_TEXT = 3
MOTE_FINISH_CANCELED = 4
MOTE_FINISH_LOOP = 5
MOTE_THINK_END_NONE = 0
MOTE_THINK_END_NATURAL = 1
MOTE_THINK_END_SOFT = 2
MOTE_THINK_END_BUDGET = 3
MOTE_THINK_END_LOOP = 4
MOTE_THINK_END_CLIENT = 5


class mote_error(Structure):
    _fields_ = [
        ("status", c_int),
        ("text", c_char * 508),
    ]


class mote_model_options(Structure):
    _fields_ = [
        ("isa", c_int),
        ("mmproj", c_char_p),
        ("mtp", c_char_p),
    ]


class mote_model_info(Structure):
    _fields_ = [
        ("name", c_char * 96),
        ("parameters", c_uint64),
        ("file_bytes", c_uint64),
        ("private_bytes", c_uint64),
        ("layers", c_uint32),
        ("attention_layers", c_uint32),
        ("context", c_uint32),
        ("vocabulary", c_uint32),
        ("tokens", c_uint32),
        ("embedding", c_uint32),
        ("experts", c_uint32),
        ("experts_used", c_uint32),
        ("expert_bytes", c_uint64),
        ("tied", c_bool),
        ("draft_head", c_bool),
        ("vision", c_bool),
        ("vision_file_bytes", c_uint64),
        ("draft_file_bytes", c_uint64),
        ("isa", c_int),
        ("chat_template", c_void_p),
        ("chat_template_bytes", c_size_t),
    ]


class mote_text_stream(Structure):
    _fields_ = [
        ("held", c_ubyte * 4),
        ("n_held", c_uint8),
    ]


class mote_lora_info(Structure):
    _fields_ = [
        ("name", c_char * 96),
        ("rank", c_uint32),
        ("matrices", c_uint32),
        ("parameters", c_uint64),
        ("bytes", c_uint64),
        ("fingerprint", c_uint64),
    ]


class mote_lora_use(Structure):
    _fields_ = [
        ("lora", c_void_p),
        ("scale", c_float),
    ]


class mote_engine_options(Structure):
    _fields_ = [
        ("threads", c_uint32),
        ("sessions", c_uint32),
        ("positions", c_uint64),
        ("shared_positions", c_bool),
        ("kept_states", c_uint32),
        ("batch", c_uint32),
        ("logits_rows", c_uint32),
        ("kv", c_int),
        ("yarn", c_float),
        ("pin", c_int),
        ("drafts", c_bool),
        ("expert_memory", c_uint64),
        ("lora_rank", c_uint32),
    ]


class mote_memory(Structure):
    _fields_ = [
        ("weights", c_uint64),
        ("experts", c_uint64),
        ("model", c_uint64),
        ("kv_cache", c_uint64),
        ("recurrent_state", c_uint64),
        ("scratch", c_uint64),
        ("total", c_uint64),
        ("drafts", c_uint64),
    ]


class mote_observed(Structure):
    _fields_ = [
        ("name", c_void_p),
        ("name_bytes", c_size_t),
        ("experts", c_uint32),
        ("expert", c_uint32),
        ("rows", POINTER(c_float)),
        ("n_rows", c_size_t),
        ("n_cols", c_size_t),
    ]


class mote_usage(Structure):
    _fields_ = [
        ("positions_total", c_uint64),
        ("positions_free", c_uint64),
        ("sessions", c_uint32),
        ("sessions_total", c_uint32),
        ("kept_states", c_uint32),
        ("kept_states_total", c_uint32),
    ]


class mote_session_options(Structure):
    _fields_ = [
        ("context", c_uint64),
        ("loras", POINTER(mote_lora_use)),
        ("n_loras", c_size_t),
    ]


class mote_block(Structure):
    _fields_ = [
        ("kind", c_int),
        ("position", c_uint64),
        ("data", c_void_p),
        ("bytes", c_size_t),
    ]


class mote_work(Structure):
    _fields_ = [
        ("session", c_void_p),
        ("tokens", POINTER(c_int32)),
        ("n", c_size_t),
        ("want", c_int),
        ("images", POINTER(c_void_p)),
        ("n_images", c_size_t),
        ("sum", POINTER(c_double)),
    ]


class mote_draft_item(Structure):
    _fields_ = [
        ("session", c_void_p),
        ("next", c_int32),
        ("given", POINTER(c_int32)),
        ("n_given", c_size_t),
        ("n", c_size_t),
        ("stop_below", c_float),
        ("logits", POINTER(c_float)),
        ("n_drafts", c_size_t),
        ("tokens", c_int32 * 8),
        ("probability", c_float * 8),
    ]


class mote_bias(Structure):
    _fields_ = [
        ("token", c_int32),
        ("add", c_float),
    ]


class mote_sampling(Structure):
    _fields_ = [
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("typical_p", c_float),
        ("presence", c_float),
        ("frequency", c_float),
        ("repetition", c_float),
        ("repeat_last", c_uint32),
        ("generated_from", c_uint64),
        ("allowed", POINTER(c_uint32)),
        ("bias", POINTER(mote_bias)),
        ("n_bias", c_size_t),
        ("seed", c_uint64),
        ("draw", c_uint32),
        ("top_logprobs", c_uint32),
    ]


class mote_top(Structure):
    _fields_ = [
        ("token", c_int32),
        ("logprob", c_float),
    ]


class mote_choice(Structure):
    _fields_ = [
        ("token", c_int32),
        ("logprob", c_float),
        ("n_top", c_uint32),
        ("top", mote_top * 20),
    ]


class mote_pixels(Structure):
    _fields_ = [
        ("rgb", POINTER(c_uint8)),
        ("second_frame", POINTER(c_uint8)),
        ("width", c_uint32),
        ("height", c_uint32),
    ]


class mote_template_info(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("known", c_bool),
        ("thinking", c_bool),
        ("note", c_char * 320),
    ]


class mote_chat_options(Structure):
    _fields_ = [
        ("system", c_void_p),
        ("system_bytes", c_size_t),
        ("context", c_uint64),
        ("official", c_bool),
        ("chat_template", c_char_p),
        ("loras", POINTER(mote_lora_use)),
        ("n_loras", c_size_t),
    ]


class mote_media(Structure):
    _fields_ = [
        ("images", POINTER(c_void_p)),
        ("seconds", POINTER(c_double)),
        ("n", c_size_t),
    ]


class mote_chat_event(Structure):
    _fields_ = [
        ("kind", c_int),
        ("call", c_uint32),
        ("name", c_void_p),
        ("name_bytes", c_size_t),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
        ("done", c_uint64),
        ("total", c_uint64),
    ]


mote_chat_event_fn = CFUNCTYPE(None, c_void_p, POINTER(mote_chat_event))


class mote_answer_options(Structure):
    _fields_ = [
        ("think", c_int),
        ("think_budget", c_uint32),
        ("max_tokens", c_uint32),
        ("task", c_int),
        ("set", c_uint),
        ("sampling", mote_sampling),
        ("stop", POINTER(c_char_p)),
        ("n_stop", c_size_t),
        ("format", c_int),
        ("format_text", c_char_p),
        ("format_bytes", c_size_t),
        ("tool_choice", c_int),
        ("tool_name", c_char_p),
        ("one_call", c_bool),
        ("no_loop_guard", c_bool),
        ("spec", c_int32),
        ("event", mote_chat_event_fn),
        ("with", c_void_p),
    ]


class mote_answer(Structure):
    _fields_ = [
        ("finish", c_int),
        ("stop", c_uint32),
        ("prompt_tokens", c_uint64),
        ("reused_tokens", c_uint64),
        ("prefilled_tokens", c_uint64),
        ("answer_tokens", c_uint64),
        ("think_tokens", c_uint64),
        ("forced_tokens", c_uint64),
        ("dropped_tokens", c_uint64),
        ("thinking", c_bool),
        ("think_budget", c_uint32),
        ("think_end", c_int),
        ("loops_detected", c_uint32),
        ("loops_recovered", c_uint32),
        ("calls", c_uint32),
        ("warnings", c_uint32),
        ("preset", c_char_p),
        ("sampling", mote_sampling),
        ("seconds_prefill", c_double),
        ("seconds_decode", c_double),
        ("drafted_tokens", c_uint64),
        ("accepted_tokens", c_uint64),
    ]


mote_observe_fn = CFUNCTYPE(None, c_void_p, POINTER(mote_observed))


# Name: result, parameters.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "mote_version": (c_char_p, []),
    "mote_status_name": (c_char_p, [c_int]),
    "mote_isa_name": (c_char_p, [c_int]),
    "mote_isa_parse": (c_bool, [c_char_p, POINTER(c_int)]),
    "mote_model_open": (c_int, [POINTER(c_void_p), c_char_p, POINTER(mote_model_options), POINTER(mote_error)]),
    "mote_model_close": (None, [c_void_p]),
    "mote_model_prefault": (c_bool, [c_void_p, POINTER(c_uint64), POINTER(c_uint64)]),
    "mote_model_drop_pages": (None, [c_void_p]),
    "mote_guard_files": (c_int, [POINTER(mote_error)]),
    "mote_model_file_state": (c_int, [c_void_p]),
    "mote_model_reopen": (c_int, [c_void_p, POINTER(mote_error)]),
    "mote_model_describe": (None, [c_void_p, POINTER(mote_model_info)]),
    "mote_tokenize": (c_int, [c_void_p, c_void_p, c_size_t, c_uint, POINTER(c_int32), c_size_t, POINTER(c_size_t), POINTER(mote_error)]),
    "mote_tokenize_with_hook": (c_int, [c_void_p, c_void_p, c_size_t, c_uint, POINTER(c_int32), c_size_t, POINTER(c_size_t), CFUNCTYPE(c_bool, c_void_p), c_void_p, POINTER(mote_error)]),
    "mote_tokens_at_least": (c_size_t, [c_void_p, c_void_p, c_size_t]),
    "mote_token_bytes": (c_void_p, [c_void_p, c_int32, POINTER(c_size_t)]),
    "mote_token_is_control": (c_bool, [c_void_p, c_int32]),
    "mote_token_is_end": (c_bool, [c_void_p, c_int32]),
    "mote_text_next": (c_size_t, [c_void_p, POINTER(mote_text_stream), c_int32, POINTER(c_char), c_size_t]),
    "mote_lora_open": (c_int, [POINTER(c_void_p), c_void_p, c_char_p, POINTER(mote_error)]),
    "mote_lora_close": (None, [c_void_p]),
    "mote_lora_describe": (None, [c_void_p, POINTER(mote_lora_info)]),
    "mote_lora_merge": (c_bool, [c_void_p, c_float, c_char_p, c_uint64, c_uint64, POINTER(c_float)]),
    "mote_engine_plan": (c_int, [c_void_p, POINTER(mote_engine_options), POINTER(mote_memory), POINTER(mote_error)]),
    "mote_engine_new": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_engine_options), POINTER(mote_error)]),
    "mote_engine_free": (None, [c_void_p]),
    "mote_engine_memory": (None, [c_void_p, POINTER(mote_memory)]),
    "mote_engine_threads": (c_uint32, [c_void_p]),
    "mote_engine_logits_rows": (c_uint32, [c_void_p]),
    "mote_engine_model": (c_void_p, [c_void_p]),
    "mote_engine_observe": (None, [c_void_p, mote_observe_fn, c_void_p]),
    "mote_engine_usage": (None, [c_void_p, POINTER(mote_usage)]),
    "mote_engine_positions_free": (c_uint64, [c_void_p]),
    "mote_session_new": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_session_options), POINTER(mote_error)]),
    "mote_session_free": (None, [c_void_p]),
    "mote_session_fork": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_error)]),
    "mote_session_length": (c_uint64, [c_void_p]),
    "mote_session_context": (c_uint64, [c_void_p]),
    "mote_session_loras": (POINTER(mote_lora_use), [c_void_p, POINTER(c_size_t)]),
    "mote_session_tokens": (POINTER(c_int32), [c_void_p]),
    "mote_session_rewind": (c_uint64, [c_void_p, c_uint64]),
    "mote_session_rewind_target": (c_uint64, [c_void_p, c_uint64]),
    "mote_session_keep": (c_int, [c_void_p, POINTER(c_uint64), POINTER(mote_error)]),
    "mote_session_unkeep": (c_bool, [c_void_p, c_uint64]),
    "mote_session_kept": (c_size_t, [c_void_p, POINTER(c_uint64), c_size_t]),
    "mote_session_kept_state": (c_void_p, [c_void_p, c_uint64]),
    "mote_session_save": (c_int, [c_void_p, c_char_p, POINTER(mote_error)]),
    "mote_session_load": (c_int, [POINTER(c_void_p), c_void_p, c_char_p, POINTER(mote_session_options), POINTER(mote_error)]),
    "mote_session_blocks": (c_size_t, [c_void_p, POINTER(mote_block), c_size_t]),
    "mote_engine_clear_page": (None, [c_void_p, c_void_p, c_size_t]),
    "mote_session_prepare": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_session_options), c_void_p, POINTER(mote_error)]),
    "mote_session_adopt": (None, [c_void_p]),
    "mote_session_end_bytes": (c_size_t, [c_void_p, c_uint64]),
    "mote_session_read_end": (c_int, [c_void_p, c_void_p, POINTER(mote_error)]),
    "mote_session_write_end": (c_int, [c_void_p, POINTER(c_int32), c_size_t, c_void_p, POINTER(mote_error)]),
    "mote_engine_identity": (None, [c_void_p, POINTER(c_ubyte)]),
    "mote_step": (c_int, [c_void_p, POINTER(mote_work), c_size_t, POINTER(mote_error)]),
    "mote_step_with_hook": (c_int, [c_void_p, POINTER(mote_work), c_size_t, CFUNCTYPE(None, c_void_p), c_void_p, POINTER(mote_error)]),
    "mote_step_abort": (None, [c_void_p]),
    "mote_step_progress": (c_uint64, [c_void_p]),
    "mote_cancel": (None, [c_void_p]),
    "mote_session_logits": (POINTER(c_float), [c_void_p, c_size_t]),
    "mote_session_hidden": (POINTER(c_float), [c_void_p, POINTER(c_size_t)]),
    "mote_draft": (c_int, [c_void_p, POINTER(mote_draft_item), c_size_t, POINTER(mote_error)]),
    "mote_sample": (c_int, [c_void_p, c_size_t, POINTER(mote_sampling), POINTER(mote_choice), POINTER(mote_error)]),
    "mote_image_new": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_pixels), c_uint32, POINTER(mote_error)]),
    "mote_image_free": (None, [c_void_p]),
    "mote_image_tokens": (POINTER(c_int32), [c_void_p, POINTER(c_size_t)]),
    "mote_image_grid": (None, [c_void_p, POINTER(c_uint32), POINTER(c_uint32)]),
    "mote_image_bytes": (c_uint64, [c_void_p]),
    "mote_image_plan": (c_uint64, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "mote_chat_template": (None, [c_void_p, POINTER(mote_template_info)]),
    "mote_chat_template_name": (c_char_p, [c_size_t]),
    "mote_chat_new": (c_int, [POINTER(c_void_p), c_void_p, POINTER(mote_chat_options), POINTER(mote_error)]),
    "mote_chat_free": (None, [c_void_p]),
    "mote_chat_set_system": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(mote_error)]),
    "mote_chat_set_tools": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(mote_error)]),
    "mote_chat_add": (c_int, [c_void_p, c_int, c_void_p, c_size_t, POINTER(mote_error)]),
    "mote_chat_add_media": (c_int, [c_void_p, POINTER(mote_media), c_size_t, c_void_p, c_size_t, POINTER(mote_error)]),
    "mote_chat_add_json": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(mote_error)]),
    "mote_chat_count": (c_size_t, [c_void_p]),
    "mote_chat_cut": (None, [c_void_p, c_size_t]),
    "mote_chat_drop_answer": (c_size_t, [c_void_p]),
    "mote_chat_undo": (c_size_t, [c_void_p]),
    "mote_chat_clear": (None, [c_void_p]),
    "mote_chat_json": (c_int, [c_void_p, c_size_t, POINTER(c_char), c_size_t, POINTER(c_size_t), POINTER(mote_error)]),
    "mote_chat_session": (c_void_p, [c_void_p]),
    "mote_chat_save": (c_int, [c_void_p, c_char_p, POINTER(mote_error)]),
    "mote_chat_load": (c_int, [POINTER(c_void_p), c_void_p, c_char_p, POINTER(mote_chat_options), POINTER(c_bool), POINTER(mote_error)]),
    "mote_think_parse": (c_bool, [c_void_p, c_size_t, POINTER(c_int), POINTER(c_uint32)]),
    "mote_chat_answer": (c_int, [c_void_p, POINTER(mote_answer_options), POINTER(mote_answer), POINTER(mote_error)]),
    "mote_chat_cancel": (None, [c_void_p]),
    "mote_finish_name": (c_char_p, [c_int]),
    "mote_think_end_name": (c_char_p, [c_int]),
}
