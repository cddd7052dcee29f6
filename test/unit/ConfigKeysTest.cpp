// SPDX-License-Identifier: Apache-2.0
//
// Every key that DeepSpeed 0.19.6 knows is a row of Config.def: used, without effect, or refused by name.
#include "frontend/ConfigFile.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace ds;

namespace {

struct Block {
  const char *path, *keys;
};

// From DeepSpeed's config classes and constants, and the parameters of Adam, AdamW, SGD and the schedulers that
// we have. Blocks of keys that are refused or ignored as a whole are named at top level only.
constexpr Block kBlocks[] = {
    {"",
     "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
     "managed_gradient_accumulation "
     "steps_per_print dump_state gradient_clipping prescale_gradients gradient_predivide_factor "
     "gradient_allreduce_op communication_data_type seq_parallel_communication_data_type "
     "sparse_gradients "
     "disable_allgather allgather_size zero_allow_untested_optimizer zero_force_ds_cpu_optimizer "
     "wall_clock_breakdown memory_breakdown dataloader_drop_last sequence_parallel_size "
     "data_parallel_size "
     "use_data_before_expert_parallelism graph_harvesting vocabulary_size log_level torch_autocast "
     "amp nebula "
     "datastates hybrid_engine compression_training weight_quantization expert_parallel "
     "tensor_parallel "
     "curriculum_learning data_efficiency progressive_layer_drop eigenvalue sparse_attention "
     "pipeline fp16 bf16 "
     "bfloat16 optimizer scheduler zero_optimization aio activation_checkpointing compile "
     "checkpoint timers "
     "flops_profiler comms_logger autotuning elasticity tensorboard wandb comet csv_monitor "
     "data_types"},
    {"zero_optimization",
     "stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce "
     "allgather_partitions allgather_bucket_size overlap_comm load_from_fp32_weights "
     "elastic_checkpoint "
     "round_robin_gradients legacy_stage1 ignore_unused_parameters offload_param offload_optimizer "
     "sub_group_size "
     "stage3_max_live_parameters stage3_max_reuse_distance stage3_prefetch_bucket_size "
     "stage3_param_persistence_threshold stage3_model_persistence_threshold "
     "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
     "stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params "
     "stage3_allgather_sequential "
     "max_live_parameters max_reuse_distance prefetch_bucket_size param_persistence_threshold "
     "model_persistence_threshold gather_16bit_weights_on_model_save module_granularity_threshold "
     "use_all_reduce_for_fetch_params allgather_sequential zero_hpz_partition_size "
     "zero_quantized_weights "
     "zero_quantized_nontrainable_weights zero_quantized_gradients zeropp_loco_param "
     "mics_shard_size "
     "mics_hierarchical_params_gather memory_efficient_linear pipeline_loading_checkpoint "
     "override_module_apply "
     "log_trace_cache_warnings enable_sanity_checks save_muon_momentum_buffer_in_memory "
     "leaf_module zenflow "
     "cpu_offload cpu_offload_params cpu_offload_use_pin_memory"},
    {"zero_optimization.offload_optimizer",
     "device nvme_path buffer_count pin_memory pipeline_read pipeline_write fast_init ratio "
     "super_offload "
     "cpuadam_cores_perc"},
    {"zero_optimization.offload_param",
     "device nvme_path buffer_count buffer_size max_in_cpu pin_memory"},
    {"fp16", "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis "
             "consecutive_hysteresis "
             "min_loss_scale fp16_master_weights_and_grads"},
    {"bf16", "enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads "
             "bf16_optimizer_states"},
    {"data_types", "grad_accum_dtype param_dtype buffer_dtype"},
    {"activation_checkpointing", "partition_activations number_checkpoints "
                                 "contiguous_memory_optimization cpu_checkpointing profile "
                                 "synchronize_checkpoint_boundary"},
    {"tensor_parallel", "autotp_size tp preset_model partition_config tp_overlap_comm dtype"},
    {"tensor_parallel.tp", "tp_size tp_grain_size mpu tp_group"},
    {"optimizer", "type params legacy_fusion"},
    {"optimizer.params", "lr betas eps weight_decay bias_correction amsgrad adam_w_mode torch_adam "
                         "fp32_optimizer_states momentum "
                         "dampening nesterov max_grad_norm maximize"},
    {"scheduler", "type params"},
    {"scheduler.params", "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps "
                         "warmup_min_ratio cos_min_ratio "
                         "last_batch_iteration"},
};

std::string nested(const std::string &path, const std::string &inside) {
  if (path.empty())
    return "{" + inside + "}";
  size_t dot = path.find('.');
  std::string rest = dot == std::string::npos ? "" : path.substr(dot + 1);
  return "{\"" + path.substr(0, dot) + "\": " + nested(rest, inside) + "}";
}

} // namespace

TEST(ConfigKeys, EveryKeyOfDeepSpeedIsARow) {
  int keys = 0;
  for (const Block &b : kBlocks) {
    std::istringstream words(b.keys);
    for (std::string key; words >> key; ++keys) {
      // No value fits all keys: what counts is that the key is not unknown.
      StatusOr<PlanConfig> c = parseConfig(nested(b.path, "\"" + key + "\": null"), "ds.json", {});
      std::string text = c.ok() ? "" : c.status().str();
      EXPECT_EQ(text.find("unknown key"), std::string::npos) << b.path << ": " << text;
    }
  }
  EXPECT_GT(keys, 150);
  EXPECT_NE(parseConfig("{\"nothing\": null}", "ds.json", {}).status().str().find("unknown key"),
            std::string::npos);
}
